#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| callboard_fuzz::record(bytes));
