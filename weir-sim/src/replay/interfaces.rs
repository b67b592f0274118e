//! Which of the policy's interfaces the frames of a capture came in by.

use std::fmt;
use weir_core::classify::InterfaceId;
use weir_policy::Policy;

/// Captured interfaces and their names in the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceMap {
    named: Vec<(String, InterfaceId)>,
    others: InterfaceId,
}

/// A name that no rule of the policy has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownInterface {
    name: String,
    known: Vec<String>,
}

impl InterfaceMap {
    /// The interface of frames that came in by none that the policy names: no rule matches it.
    pub const NONE: InterfaceId = InterfaceId(u16::MAX);

    /// A map in which equal names are the same interface, unless `pairs` say otherwise. A pair is a
    /// captured name and the policy's; without the former it stands for all captured interfaces
    /// that have no other meaning, and later pairs go before earlier ones.
    ///
    /// # Errors
    /// When the policy has no such interface.
    pub fn new(
        policy: &Policy,
        pairs: &[(Option<String>, String)],
    ) -> Result<Self, UnknownInterface> {
        let numbered = policy.interfaces.iter().zip(0..);
        let mut map = Self {
            named: numbered.map(|(name, number)| (name.clone(), InterfaceId(number))).collect(),
            others: Self::NONE,
        };
        for (captured, name) in pairs {
            let Some(number) = policy.interfaces.iter().position(|known| known == name) else {
                let known = policy.interfaces.clone();
                return Err(UnknownInterface { name: name.clone(), known });
            };
            let interface = InterfaceId(number as u16);
            match captured {
                Some(captured) => map.named.insert(0, (captured.clone(), interface)),
                None => map.others = interface,
            }
        }
        Ok(map)
    }

    /// The policy's interface for a captured one.
    pub fn of(&self, captured: &str) -> InterfaceId {
        let named = self.named.iter().find(|(name, _)| name == captured);
        named.map_or(self.others, |&(_, interface)| interface)
    }
}

impl fmt::Display for UnknownInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no rule of the policy names the interface `{}`; ", self.name)?;
        if self.known.is_empty() {
            return f.write_str("none names any, so say nothing of interfaces");
        }
        write!(f, "there are `{}`", self.known.join("`, `"))
    }
}

impl std::error::Error for UnknownInterface {}

#[cfg(test)]
mod tests {
    use super::*;

    /// `map` is `captured=policy` or `policy`, `expected` the interface of `captured`.
    fn check(map: &[&str], captured: &str, expected: Option<u16>) {
        let text = "
            link = { rate = '1 Mbit/s', scheduler = 'fifo' }
            [class.all]
            default = true
            match = [{ interface = 'lan' }, { interface = 'wan' }]
        ";
        let policy = weir_policy::parse(text, "test.toml");
        let policy = policy.plan.unwrap_or_else(|| panic!("{:?}", policy.findings));
        let pair = |text: &&str| match text.split_once('=') {
            Some((captured, name)) => (Some(captured.to_owned()), name.to_owned()),
            None => (None, (*text).to_owned()),
        };
        let pairs: Vec<_> = map.iter().map(pair).collect();
        let map = InterfaceMap::new(&policy, &pairs).expect("rows name what there is");
        assert_eq!(map.of(captured), expected.map_or(InterfaceMap::NONE, InterfaceId));
    }

    #[test]
    fn names_are_equal_unless_a_pair_says_otherwise() {
        check(&[], "lan", Some(0));
        check(&[], "wan", Some(1));
        check(&[], "eth0", None);
        check(&["eth0=wan"], "eth0", Some(1));
        check(&["eth0=wan"], "lan", Some(0));
        check(&["lan=wan", "wan=lan"], "lan", Some(1));
        check(&["lan=wan", "wan=lan"], "wan", Some(0));
        check(&["wan"], "", Some(1));
        check(&["wan"], "lan", Some(0));
        check(&["eth0=lan", "eth0=wan"], "eth0", Some(1));
    }
}
