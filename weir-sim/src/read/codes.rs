//! The kinds of findings that only scenarios have: `W3xx`. A code never changes its meaning.

use weir_policy::finding::{Code, Severity};

macro_rules! codes {
    ($($name:ident $id:literal $severity:ident $title:literal;)*) => {
        $(#[doc = concat!($id, ": ", $title, ".")]
        pub static $name: Code =
            Code { id: $id, severity: Severity::$severity, title: $title, source: None };)*

        /// The whole table, in the order of the codes.
        pub static ALL: &[&Code] = &[$(&$name,)*];
    };
}

codes! {
    POLICY_FAULTY "W301" Error "the policy that a scenario names has errors";
    NOTHING_COUNTS "W302" Error "a warm-up that leaves nothing to count";
    NO_SOURCE "W303" Warning "a scenario without a sender";
    NAME_TWICE "W304" Error "two sources of one name";
    EXCLUSIVE "W305" Error "two keys of which only one can hold";
    ONE_OF "W306" Error "none of several keys of which one is needed";
    NOT_WHOLE "W307" Error "shares that do not sum to 100 %";
    NEVER_SENDS "W308" Warning "a source that stops before it starts, or starts after the end";
    FAMILIES "W309" Error "addresses of different IP versions";
    NEEDLESS "W310" Error "a key that means nothing without another";
    TCP_HEADERS "W311" Error "headers with which a connection cannot work";
    UNKNOWN_INTERFACE "W312" Error "an interface that no rule of the policy names";
    CHANGE_OUTSIDE "W313" Error "a change that is not within the run";
    CHANGE_ORDER "W314" Error "changes that are not in the order of time";
    TOO_DENSE "W315" Warning "a source with more packets than can be simulated in a while";
    UNKNOWN_NODE "W331" Error "a node that the network lacks";
    UNKNOWN_LINK "W332" Error "a link that the network lacks";
    NO_ROUTE "W333" Error "a source without a route to its receiver";
    PLACE_TWICE "W334" Error "two nodes or two links of one name";
    LINK_TWICE "W335" Error "two links between the same two nodes";
    LINK_LOOP "W336" Error "a link from a node to itself";
    NOT_ON_LINKS "W337" Error "a key of one link in a network";
    LINK_TOO_SMALL "W338" Error "a link with too small an MTU for what crosses it";
    UNKNOWN_CLASS "W339" Error "a class that the policy lacks";
    OTHER_CLASS "W340" Error "a source whose packets do not go to the class that it names";
    NO_ARRIVALS "W341" Error "a file of recorded arrivals that cannot be used";
    UNREAD_HEADERS "W342" Warning "recorded frames whose headers cannot be read";
    NO_PLACES "W343" Error "a class for reservations that a network lacks, or that has no room";
    UNKNOWN_SOURCE "W344" Error "a flow that no source sends";
    OTHER_SESSION "W345" Error "reservations and flows that are not of one session";
    NO_CAPACITY "W346" Error "a file of a capacity that cannot be used";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(ALL.is_sorted_by(|one, other| one.id < other.id));
        assert!(ALL.iter().all(|code| code.id.starts_with("W3")));
    }

    #[test]
    fn the_docs_list_every_code() {
        let docs = include_str!("../../../docs/scenarios.md");
        for code in ALL {
            let warning = if code.severity == Severity::Warning { " (warning)" } else { "" };
            let row = format!("| `{}` | {}{warning} |", code.id, code.title);
            assert!(docs.contains(&row), "docs/scenarios.md lacks {row}");
        }
    }
}
