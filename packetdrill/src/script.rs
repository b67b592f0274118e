//! The syntax tree of a packetdrill script: what it sets, what it injects and what it expects.
//!
//! Times are microseconds, as in the scripts. Invariant: a tree says what the text says, and no
//! more; whether the model can replay it is decided by the driver.

/// A script as it is written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// Options such as `--tolerance_usecs=10000`, without the dashes.
    pub options: Vec<(String, String)>,
    /// The events in their order; shell commands before the first event are events at time 0.
    pub events: Vec<Event>,
}

impl Script {
    /// Returns the value of the option `name`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// One thing that happens at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The line of the script, from 1.
    pub line: usize,
    /// The instant or range of the event.
    pub time: Time,
    /// When a call that blocks returns, counted as `time` is.
    pub until: Option<i64>,
    /// The packet, call or command.
    pub action: Action,
}

/// When an event happens, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// After the start of the script.
    Absolute(i64),
    /// After the event before.
    Relative(i64),
    /// Between two times after the start.
    AbsoluteRange(i64, i64),
    /// Between two times after the event before.
    RelativeRange(i64, i64),
    /// At any time: `*`.
    Any,
    /// Before the script starts or after it ends: a shell command without a time.
    Untimed,
}

/// An action of the script or of the endpoint.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// A packet from the other side arrives.
    Inject(Packet),
    /// A packet is expected from the endpoint.
    Expect(Packet),
    /// The application calls the socket.
    Call(Call),
    /// A shell command, the text between the backticks.
    Shell(String),
    /// Python code, the text between `%{` and `}%`.
    Code(String),
    /// A packet of another protocol than TCP, which the model does not have.
    Foreign(String),
}

/// A TCP packet as a script writes it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Packet {
    /// The codepoint of explicit congestion notification, if the script names one.
    pub ecn: Option<EcnMark>,
    /// The flags, by their letters.
    pub flags: FlagSet,
    /// The first sequence number.
    pub seq: u32,
    /// The bytes of data.
    pub length: u32,
    /// The acknowledgement number; `None` if the script writes none.
    pub ack: Option<u32>,
    /// The window, not scaled.
    pub window: Option<u16>,
    /// The options; `None` if any will do (`<...>`).
    pub options: Option<Vec<TcpOption>>,
    /// Whether ports are given: a second connection, in most scripts.
    pub ports: bool,
    /// Why the model cannot have this packet: an urgent pointer, an encapsulation.
    pub foreign: Option<String>,
}

/// The flags of a packet in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlagSet {
    /// SYN, written `S`.
    pub syn: bool,
    /// FIN, written `F`.
    pub fin: bool,
    /// RST, written `R`.
    pub rst: bool,
    /// PSH, written `P`.
    pub psh: bool,
    /// ACK, written `.`.
    pub ack: bool,
    /// URG, written `U`.
    pub urg: bool,
    /// ECE, written `E`.
    pub ece: bool,
    /// CWR, written `W`.
    pub cwr: bool,
    /// AE, written `A`.
    pub ae: bool,
    /// A digit: the three ECN flags as a number.
    pub ace: Option<u8>,
}

impl FlagSet {
    /// Returns the flags AE, CWR and ECE as a number.
    pub fn ace(self) -> u8 {
        let letters = u8::from(self.ae) << 2 | u8::from(self.cwr) << 1 | u8::from(self.ece);
        self.ace.unwrap_or(letters)
    }
}

/// The codepoint of explicit congestion notification in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMark {
    /// Not-ECT, written `[noecn]`.
    NotEct,
    /// ECT(0), written `[ect0]`.
    Ect0,
    /// ECT(1), written `[ect1]`.
    Ect1,
    /// `[ect01]`: either of the two.
    Ect01,
    /// CE, written `[ce]`.
    Ce,
}

/// An option of TCP in a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TcpOption {
    /// The largest segment, as in `mss 1460`.
    Mss(u16),
    /// The window scale, as in `wscale 7`.
    WindowScale(u8),
    /// Selective acknowledgements are permitted: `sackOK`.
    SackPermitted,
    /// `TS val 100 ecr 0`
    Timestamps {
        /// The clock of the sender.
        value: u32,
        /// The clock that is echoed.
        echo: u32,
    },
    /// Ranges that arrived, as in `sack 1:2 3:4`.
    Sack(Vec<(u32, u32)>),
    /// `ECN e0b 1 ceb 0 e1b 1`: the counters in their order.
    AccEcn(Vec<(Counter, u32)>),
    /// Padding: `nop` or `eol`.
    Padding,
    /// An option that the model does not have.
    Other(String),
}

/// A counter of accurate ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Bytes received as ECT(0).
    Ect0,
    /// Bytes received with a mark.
    Ce,
    /// Bytes received as ECT(1).
    Ect1,
}

/// A system call with its result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// The name of the system call.
    pub name: String,
    /// Its arguments as written.
    pub arguments: Vec<String>,
    /// Its result as written; `...` if any will do.
    pub result: String,
    /// The name of the error, such as `EINPROGRESS`.
    pub error: Option<String>,
}

impl Call {
    /// Returns the argument at this place, or nothing.
    pub fn argument(&self, place: usize) -> &str {
        self.arguments.get(place).map_or("", String::as_str)
    }

    /// Returns the argument at this place as a number; `[5]` is 5.
    pub fn number(&self, place: usize) -> Option<i64> {
        parse_number(self.argument(place).trim_matches(['[', ']']))
    }

    /// Returns the result as a number.
    pub fn returned(&self) -> Option<i64> {
        parse_number(&self.result)
    }
}

/// Parses a decimal or hexadecimal number.
pub fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
