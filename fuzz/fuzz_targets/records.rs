//! libFuzzer's entry to [`weir_fuzz::records`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::records(input));
