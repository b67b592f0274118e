//! Fields of records: little-endian numbers, and texts and lists with their lengths before them.

/// Takes fields from the front of bytes; `None` where they end before the field.
pub(crate) trait TakeFields<'a> {
    /// The next `count` bytes.
    fn part(&mut self, count: usize) -> Option<&'a [u8]>;

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.part(N)?.try_into().ok()
    }

    /// Takes one byte.
    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A number of two bytes.
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes with their length before them.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.part(length as usize)
    }

    /// A text with its length before it; bytes that are no UTF-8 are replaced.
    fn text(&mut self) -> Option<String> {
        self.counted().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A list with its length before it. Memory is taken only for items that are there.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(item(self)?);
        }
        Some(list)
    }
}

impl<'a> TakeFields<'a> for &'a [u8] {
    fn part(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.split_at_checked(count)?;
        *self = rest;
        Some(bytes)
    }
}

/// Appends bytes with their length before them.
pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the length of a list.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("what a record holds is shorter than 4 GiB");
    out.extend_from_slice(&count.to_le_bytes());
}
