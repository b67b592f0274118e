//! Target `offload`: finishing what a sender left to hardware, for any header and any bytes.
//!
//! The input is the kernel's header as it is in memory (10 bytes), a byte of which the lowest bit
//! says that a tag is put back, and the frame.

use weir_link::offload::{OffloadHeader, Plan, SEGMENTS_MAX, TAG_LEN, Tag, plan};

/// Plans an input, and writes every frame that it makes.
pub fn offload(input: &[u8]) {
    let Some((header, rest)) = input.split_first_chunk() else { return };
    let Some((&tagged, frame)) = rest.split_first() else { return };
    let header = OffloadHeader::parse(header);
    let tag = (tagged & 1 == 1).then_some(Tag { tpid: 0x88a8, tci: 7 });
    assert!((1..=SEGMENTS_MAX).contains(&header.count(frame, frame.len())));
    // No port hands over an empty frame.
    if frame.is_empty() {
        return;
    }
    let Ok(plan) = plan(frame, &header) else { return };
    let (count, longest) = (plan.count(), plan.longest(frame, tag));
    assert!((1..=SEGMENTS_MAX).contains(&count));
    let mut out = vec![0; longest];
    let mut written = Vec::new();
    for index in 0..count {
        let len = plan.write(frame, tag, index, &mut out);
        let Some(len) = len else {
            assert!(frame.len() < 12 && tag.is_some(), "only a runt has no place for its tag");
            return;
        };
        assert!(plan.write(frame, tag, index, &mut out[..len - 1]).is_none(), "too little room");
        written.push(len);
    }
    assert_eq!(written.iter().copied().max(), Some(longest));
    let tag_len = if tag.is_some() { TAG_LEN } else { 0 };
    match plan {
        Plan::Whole { .. } => assert_eq!(written, [frame.len() + tag_len]),
        // All but the last are equally long, and it is not longer.
        Plan::Cut(_) => assert!(written[..count - 1].iter().all(|len| *len == longest)),
    }
}
