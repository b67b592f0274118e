//! Fixed-width fields of a header in either byte order, taken one after another without panics.

/// The order of the bytes in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The `u32` that `bytes` hold in this order.
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// The fields not yet taken; each method takes the next one, or returns `None` where too few bytes
/// are left.
pub(super) struct Fields<'b> {
    bytes: &'b [u8],
    order: ByteOrder,
}

impl<'b> Fields<'b> {
    pub fn new(bytes: &'b [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    pub fn order(&self) -> ByteOrder {
        self.order
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(|bytes| self.order.u16(bytes))
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(|bytes| self.order.u32(bytes))
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(|bytes| self.order.u64(bytes))
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
}
