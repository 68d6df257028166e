//! The strict scan against serde_json (invariant 2).

use pintle_wire::{JsonErrorClass, Profile, ScanLimits, scan as scan_text};

use crate::oracle;

/// The scan accepts exactly what a strict reading by serde_json accepts, within its own bounds, and both see the same tree.
pub fn scan(input: &[u8]) {
    let strict = scan_text(input, Profile::DriverRpc, ScanLimits::CONTROL);
    let tree = oracle::strict(input);
    match &strict {
        Ok(text) => {
            let tree = tree.expect("serde_json reads what the scan accepts");
            assert_eq!(text.decode::<serde_json::Value>().ok().as_ref(), Some(&tree), "decoding gives the same tree");
            assert_eq!(text.raw(), input);
            assert_eq!(text.as_str().as_bytes(), input);
            assert_eq!(text.lone_surrogates(), 0);
        }
        Err(error) => {
            assert!(error.offset <= input.len(), "the place is in the text");
            assert!(error.line >= 1 && error.column >= 1);
            assert_eq!(error.class, error.reason.class());
            match error.class {
                JsonErrorClass::TooLarge => assert!(input.len() > ScanLimits::CONTROL.max_bytes),
                JsonErrorClass::TooDeep => {}
                JsonErrorClass::DuplicateName => assert!(tree.is_none(), "a strict reading refuses it too"),
                _ => assert!(oracle::lenient(input).is_none(), "serde_json refuses it too: {error}"),
            }
        }
    }

    match scan_text(input, Profile::Acp, ScanLimits::CONTROL) {
        Ok(text) => {
            let read = oracle::strict(text.as_str().as_bytes()).expect("serde_json reads what it is given");
            assert_eq!(text.as_str().len(), input.len(), "offsets stay");
            assert_eq!(text.lone_surrogates() == 0, strict.is_ok(), "the profiles differ in lone surrogates only");
            assert_eq!(text.decode::<serde_json::Value>().ok(), Some(read));
        }
        Err(error) => {
            let strict = strict.expect_err("the strict profile accepts no more");
            // A lone surrogate is refused where it stands; the lenient profile goes on to the next fault.
            if strict.class != JsonErrorClass::Surrogate {
                assert_eq!(error, strict);
            }
        }
    }
}
