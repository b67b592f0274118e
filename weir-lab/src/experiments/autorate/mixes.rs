//! The loads of the experiment, each beside a call in both ways.

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// The word in rows.
    pub name: &'static str,
    /// Its sources, as a scenario writes them.
    pub sources: &'static str,
}

/// A connection each way.
macro_rules! bulk {
    ($lines:literal) => {
        concat!(
            "\n[[source]]\nname = \"up-bulk\"\nkind = \"tcp\"\nwindow = \"8 MB\"\n\
             timestamps = true\nfrom = \"host\"\nto = \"server\"\n",
            $lines,
            "\n[[source]]\nname = \"down-bulk\"\nkind = \"tcp\"\nwindow = \"8 MB\"\n\
             timestamps = true\nfrom = \"server\"\nto = \"host\"\n",
            $lines,
            "\n"
        )
    };
}

macro_rules! pages {
    () => {
        "\n[[source]]\nname = \"pages\"\nkind = \"web\"\ntimestamps = true\n\
         from = \"server\"\nto = \"host\"\n"
    };
}

macro_rules! videos {
    () => {
        "\n[[source]]\nname = \"video-down\"\nkind = \"video\"\nbitrate = \"1 Mbit/s\"\n\
         dport = 5006\nfrom = \"server\"\nto = \"host\"\n\
         [[source]]\nname = \"video-up\"\nkind = \"video\"\nbitrate = \"500 kbit/s\"\n\
         dport = 5006\nfrom = \"host\"\nto = \"server\"\n"
    };
}

macro_rules! quic {
    () => {
        "\n[[source]]\nname = \"up-quic\"\nkind = \"quic\"\nwindow = \"8 MiB\"\n\
         from = \"host\"\nto = \"server\"\n\
         [[source]]\nname = \"down-quic\"\nkind = \"quic\"\nwindow = \"8 MiB\"\n\
         from = \"server\"\nto = \"host\"\n"
    };
}

/// That of all lines: bulk connections of several kinds in both ways.
pub const BULK: Mix = Mix {
    name: "bulk",
    sources: r#"
[[source]]
name = "up-cubic"
kind = "tcp"
window = "8 MB"
timestamps = true
from = "host"
to = "server"

[[source]]
name = "up-bbr"
kind = "tcp"
congestion = "bbr"
pacing = true
window = "8 MB"
timestamps = true
start = "1 s"
from = "host"
to = "server"

[[source]]
name = "down-cubic"
kind = "tcp"
window = "8 MB"
timestamps = true
from = "server"
to = "host"

[[source]]
name = "down-reno"
kind = "tcp"
congestion = "reno"
window = "8 MB"
timestamps = true
start = "1 s"
from = "server"
to = "host"
"#,
};

/// Others, which are run on a few lines.
pub const OTHERS: [Mix; 6] = [
    Mix { name: "reno", sources: bulk!("congestion = \"reno\"") },
    Mix { name: "cubic", sources: bulk!("congestion = \"cubic\"") },
    Mix { name: "bbr", sources: bulk!("congestion = \"bbr\"\npacing = true") },
    Mix { name: "web beside cubic", sources: concat!(bulk!("congestion = \"cubic\""), pages!()) },
    Mix {
        name: "video beside cubic",
        sources: concat!(bulk!("congestion = \"cubic\""), videos!()),
    },
    // Nothing that passes tells of it.
    Mix { name: "QUIC", sources: quic!() },
];

/// A bulk connection each way, named as calls are.
pub const CALLS_AND_CUBIC: Mix = Mix {
    name: "cubic",
    sources: r#"
[[source]]
name = "bulk-up"
kind = "tcp"
dport = 8080
window = "8 MB"
timestamps = true
from = "host"
to = "server"

[[source]]
name = "bulk-down"
kind = "tcp"
dport = 8080
window = "8 MB"
timestamps = true
from = "server"
to = "host"
"#,
};
