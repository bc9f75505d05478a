//! Partitions: which key of a port's table a queue pair uses.

/// The bit of a key that says that a member may talk to all others; limited members talk to full
/// ones only.
const FULL: u16 = 0x8000;

/// A key of a port's table, by its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) index: u16,
    pub(super) key: u16,
}

impl Partition {
    /// Chooses from the table of a port: the entry at `index` if that was asked for; else the first
    /// full member, of the partition `key` if that was asked for; else the first limited one.
    /// Returns why there is none.
    pub(super) fn choose(
        table: &[u16],
        index: Option<u16>,
        key: Option<u16>,
    ) -> Result<Self, String> {
        let entries = table.iter().enumerate();
        let entries = entries.map(|(index, key)| Partition { index: index as u16, key: *key });
        let usable: Vec<_> = entries
            .filter(|entry| entry.key & !FULL != 0)
            .filter(|entry| index.is_none_or(|index| entry.index == index))
            .filter(|entry| key.is_none_or(|key| same(entry.key, key)))
            .collect();
        let chosen = usable.iter().find(|entry| entry.key & FULL != 0).or(usable.first());
        chosen.copied().ok_or_else(|| match (index, key) {
            (None, None) => "it is a member of no partition".to_owned(),
            (Some(index), None) => format!("its table has no partition key at the place {index}"),
            (None, Some(key)) => format!("it is no member of the partition {key:#06x}"),
            (Some(index), Some(key)) => {
                format!("its table does not have the partition {key:#06x} at the place {index}")
            }
        })
    }
}

/// Returns true if both keys name the same partition.
fn same(a: u16, b: u16) -> bool {
    a & !FULL == b & !FULL
}

/// Returns true if members with these keys may talk to each other.
pub(super) fn may_talk(a: u16, b: u16) -> bool {
    same(a, b) && (a | b) & FULL != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [u16; 5] = [0, 0x0007, 0x8007, 0xffff, 0x0009];

    #[test]
    fn the_first_full_member_is_the_default() {
        let choose = |index, key| Partition::choose(&TABLE, index, key).map(|it| it.index);
        assert_eq!(choose(None, None), Ok(2));
        assert_eq!(choose(None, Some(0x7fff)), Ok(3), "found by value, whatever the membership");
        assert_eq!(choose(None, Some(0x8007)), Ok(2));
        assert_eq!(choose(None, Some(0x8009)), Ok(4), "a limited member where there is no other");
        assert_eq!(choose(Some(1), None), Ok(1));
        assert_eq!(choose(Some(1), Some(7)), Ok(1));
        for (index, key) in [(Some(0), None), (Some(9), None), (None, Some(8)), (Some(1), Some(9))]
        {
            choose(index, key).unwrap_err();
        }
        let none = Partition::choose(&[0, 0x8000], None, None).unwrap_err();
        assert_eq!(none, "it is a member of no partition");
    }

    #[test]
    fn limited_members_talk_to_full_ones_only() {
        assert!(may_talk(0xffff, 0xffff) && may_talk(0x7fff, 0xffff) && may_talk(0x8007, 7));
        assert!(!may_talk(7, 7) && !may_talk(0x8007, 0x8009));
    }
}
