//! A binary that is nothing but a keeper, as `pintle __exec` is in the product.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(pintle_sdk::shim::ARG) && pintle_sdk::shim::run().is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}
