//! Kinds of findings: `W0xx` reading any file, `W1xx` policies, `W2xx` deployments, `W4xx` other
//! tools' files.
//!
//! A lint's code is in its file in `lints/`; [`crate::every_code`] returns all. `W3xx` are
//! scenarios', whose crate has its own table. A code never changes its meaning; a retired one is
//! not reused. `docs/findings.md` prints all codes, and a test compares it with them.

use serde::Serialize;
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the file works as intended.
    Info,
    /// The file works, but probably not as intended.
    Warning,
    /// The file gives no plan.
    Error,
}

/// A kind of finding. Its id never changes its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// `W` and three digits.
    pub id: &'static str,
    /// The severity of all its findings.
    pub severity: Severity,
    /// The description in the table of all codes.
    pub title: &'static str,
    /// The source that describes the trap: a key of `docs/sources.md` with its section.
    pub source: Option<&'static str>,
}

impl Severity {
    /// Returns the word in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! codes {
    ($($name:ident $id:literal $severity:ident $title:literal $($source:literal)?;)*) => {
        $(#[doc = concat!($id, ": ", $title, ".")]
        pub static $name: Code = Code {
            id: $id,
            severity: Severity::$severity,
            title: $title,
            source: codes!(@source $($source)?),
        };)*

        /// This table, in the order of the codes.
        pub static ALL: &[&Code] = &[$(&$name,)*];
    };
    (@source) => { None };
    (@source $source:literal) => { Some($source) };
}

codes! {
    NOT_UTF8 "W001" Error "the file is not UTF-8";
    TOO_LARGE "W002" Error "the file is larger than Weir reads";
    NOT_TOML "W003" Error "the file is not TOML, or a key is written twice";
    UNREADABLE "W004" Error "a file that this one names cannot be read";
    MORE "W008" Info "more warnings than are shown";
    MORE_ERRORS "W009" Error "more findings than are shown, errors among them";
    UNKNOWN_KEY "W010" Error "an unknown key";
    MISSING_KEY "W011" Error "a key that must be written is missing";
    WRONG_TYPE "W012" Error "a value of the wrong TOML type";
    BAD_QUANTITY "W013" Error "a quantity that cannot be read";
    AMBIGUOUS_UNIT "W014" Error "a unit that means bits to some and bytes to others";
    OUT_OF_RANGE "W015" Error "a value outside its range";
    UNKNOWN_CHOICE "W016" Error "a word that is not one of the choices";
    BAD_VALUE "W017" Error "a value that cannot be read";
    TOO_MANY "W018" Error "more entries than Weir allows";

    UNSUPPORTED_PARAMETER "W101" Error "a parameter that the algorithm does not have";
    OTHER_SCHEDULER "W102" Error "parameters for a scheduler that the link does not use";
    NO_CLASS "W103" Error "a policy without classes";
    UNKNOWN_PARENT "W104" Error "a parent that is not declared";
    PARENT_LOOP "W105" Error "a class that is its own ancestor";
    TOO_DEEP "W106" Error "a class below the deepest level" "algorithms §5.3";
    NOT_HIERARCHICAL "W107" Error "a hierarchy under a scheduler that has none";
    INTERIOR "W108" Error "a class with children has a key that only a leaf may have";
    NO_DEFAULT "W109" Error "packets that match no rule have no class" "algorithms §3.16";
    TWO_DEFAULTS "W110" Error "more than one default class";
    RATE_AND_SHARE "W111" Error "both a rate and a share";
    SHARE_OF_NOTHING "W112" Error "a share of a parent without a rate";
    OVERCOMMITTED "W113" Error "children are promised more than their parent has" "algorithms §5.6";
    REFUSED "W114" Error "values that are in range but contradict each other";
    BAD_NAME "W115" Error "a name that is not allowed";
    UNKNOWN_INTERFACE "W116" Error "a rule names a port that the deployment does not have";
    NO_MARKS "W117" Warning "a rule on a mark, which packets of a deployment do not have";
    OVERSUBSCRIBED "W118" Info "children are promised more than their parent has, which it says";
    UNREACHABLE "W120" Warning "a leaf that no packet can reach" "algorithms §11.4";
    SHADOWED "W121" Warning "a rule that an earlier one covers" "algorithms §11.4";
    NEVER_MATCHES "W122" Warning "a rule whose conditions exclude each other" "algorithms §11.1";
    BELOW_PACKET "W123" Warning "a burst or quantum below the largest packet" "algorithms §5.10";
    ZERO_LIMIT "W124" Error "a queue with a limit of 0";
    LIMIT_BELOW_PACKET "W125" Warning "a queue too small for the largest packet";
    STORE_TOO_SMALL "W126" Warning "the queues together may hold more packets than the link";
    BAD_PROMISE "W150" Error "a promise that cannot be read";
    PROMISE_WITHOUT_CLASS "W151" Error "a promise about a class that does not exist";

    BAD_LIST "W160" Error "a list of rows that cannot be read";
    UNKNOWN_COLUMN "W161" Error "a template names a column that the list does not have";
    UNKNOWN_PLAN "W162" Error "a row names a plan that is not declared";
    EMPTY_CELL "W163" Error "a row lacks a value that the template needs";
    SAME_NAME "W164" Error "two rows, or a row and a class, have the same name";
    SAME_ADDRESS "W165" Error "two rows have the same address";
    NO_PLACE "W166" Error "a class at a place that is not there, or that it cannot have";
    NO_SUCH_ROW "W167" Error "an exception for a class that no template makes";

    PORT_COUNT "W201" Error "a deployment or a bridge with too few or too many ports";
    SAME_PORT "W202" Error "two ports on one interface";
    UNKNOWN_PORT "W203" Error "a port that is not declared";
    DIRECTION_COUNT "W204" Error "a deployment with too many directions";
    SAME_WAY "W205" Error "two directions between the same ports, or one that ends where it begins";
    POLICY_FAULTY "W206" Error "a policy that a deployment names has errors";
    LONE_PORT "W207" Error "a port that no direction names";
    CPU_COUNT "W208" Error "another number of processors than of bridges";
    POOL_TOO_SMALL "W209" Warning "queues that together exceed the pool of their direction";
    POOL_LARGE "W210" Info "a pool that takes much memory";
    LINES_APART "W211" Info "two directions that lead to one port, each with a line of its own";
    OPEN_HUB "W212" Warning "a bridge of several ports that is a hub while nothing forwards";
    NEVER_YIELDS "W213" Warning "threads that never sleep before all ordinary ones";
    BAD_ALARM "W214" Error "an alarm whose condition cannot be read or watched";
    BAD_RSVP "W215" Error "reservations for which a deployment or its policy has no place";
    BAD_CIRCUITS "W216" Error "circuits for which no policy has a template, or that find no place";
    LARGE_PLAN "W217" Warning "a plan that some sites cannot carry";
    BAD_AUTORATE "W218" Error "a varying rate without order, of two rules or an unknown modem";
    SMALLEST_RATE "W219" Warning "at the smallest rate a class gets less than it declares";
    ONE_ADDRESS "W220" Info "hosts that a translation of addresses may have made one";
    RESTORED_TWICE "W221" Error "two directions that take code points from each other";

    UNKNOWN_STATEMENT "W401" Error "a word that the imported language does not allow here";
    INCOMPLETE "W402" Error "an imported line that ends too early, or goes on too long";
    BAD_IMPORT_VALUE "W403" Error "an imported value that cannot be read";
    UNDECLARED "W404" Error "an imported line names something undeclared";
    DECLARED_TWICE "W405" Error "an imported name that is declared twice";
    INCONSISTENT "W406" Error "imported lines that contradict each other or lack a part";
    IMPORT_REFUSED "W407" Error "a file whose policy Weir refuses";
    NOTHING_IMPORTED "W408" Error "a file without any shaping";
}
