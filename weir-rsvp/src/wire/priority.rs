//! The priority of a reservation: the element PREEMPTION_PRI of POLICY_DATA `[rfc3181]`.

use super::reader::Reader;

/// Which reservations go where not all fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Priority {
    /// It takes the place of reservations that defend themselves with less than this.
    pub preempting: u16,
    /// It keeps its place against reservations that preempt with no more than this.
    pub defending: u16,
}

impl Priority {
    /// The priority in a POLICY_DATA object, without the object's header; none if it has none that
    /// can be read [rfc2750 §2, rfc3181 §2].
    pub fn of_policy(bytes: &[u8]) -> Option<Self> {
        let offset = Reader::new(bytes).u16().ok()?;
        // Counted from the header of the object.
        let start = usize::from(offset).checked_sub(OBJECT_HEADER)?;
        let mut elements = Reader::new(bytes.get(start..)?);
        for _ in 0..ELEMENTS_MAX {
            if elements.is_empty() {
                return None;
            }
            let (length, kind) = (elements.u16().ok()?, elements.u16().ok()?);
            let length = usize::from(length).checked_sub(ELEMENT_HEADER)?;
            let mut contents = Reader::new(elements.take(length).ok()?);
            if kind == PREEMPTION {
                // Flags, merging strategy, error code and what is reserved.
                contents.u32().ok()?;
                let (preempting, defending) = (contents.u16().ok()?, contents.u16().ok()?);
                return Some(Self { preempting, defending });
            }
        }
        None
    }

    /// Returns the POLICY_DATA object with this priority, without the object's header.
    pub fn policy(self) -> Vec<u8> {
        let offset = (OBJECT_HEADER + 4) as u16;
        let mut bytes = offset.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(((ELEMENT_HEADER + 8) as u16).to_be_bytes());
        bytes.extend(PREEMPTION.to_be_bytes());
        bytes.extend([0, HIGHEST, 0, 0]);
        bytes.extend(self.preempting.to_be_bytes());
        bytes.extend(self.defending.to_be_bytes());
        bytes
    }
}

/// The header of an object, and of an element of POLICY_DATA.
const OBJECT_HEADER: usize = 4;
const ELEMENT_HEADER: usize = 4;
/// [rfc3181 §2] The type of the element.
const PREEMPTION: u16 = 3;
/// [rfc3181 §2.1] Of merged reservations the highest priority counts.
const HIGHEST: u8 = 2;
/// Bound: elements of a POLICY_DATA that are read; behind more no priority is found.
const ELEMENTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_found_among_other_elements_and_nothing_else_is() {
        let priority = Priority { preempting: 7, defending: 300 };
        let bytes = priority.policy();
        assert_eq!(bytes, [0, 8, 0, 0, 0, 12, 0, 3, 0, 2, 0, 0, 0, 7, 1, 44]);
        assert_eq!(Priority::of_policy(&bytes), Some(priority));
        let mut others = bytes[..4].to_vec();
        others.extend([0, 8, 0, 9, 1, 2, 3, 4]);
        others.extend(&bytes[4..]);
        assert_eq!(Priority::of_policy(&others), Some(priority));
        for cut in 0..bytes.len() {
            assert_eq!(Priority::of_policy(&bytes[..cut]), None, "{cut}");
        }
        let rows: [&[u8]; 4] = [
            &[0, 3, 0, 0, 0, 12, 0, 3],
            &[255, 255, 0, 0],
            &[0, 8, 0, 0, 0, 3, 0, 3, 0, 0, 0, 0],
            &[0, 8, 0, 0, 0, 0, 0, 0],
        ];
        for row in rows {
            assert_eq!(Priority::of_policy(row), None, "{row:?}");
        }
    }
}
