//! libFuzzer's entry to [`weir_fuzz::infer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::infer(input));
