//! A binary that is nothing but a keeper, as `pintle __exec` is in the product. What it is called says what it cannot do:
//! `keeper.no-namespaces.no-groups.landlock-2` is one on an older kernel, see [`pintle_testkit::drivers::Place::with_lesser_keeper`].

use std::path::Path;
use std::process::ExitCode;

use pintle_sdk::shim::{ARG, Abilities, run_within};

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    if arguments.next().as_deref() == Some(ARG) && run_within(abilities(&name)).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

fn abilities(program: &str) -> Abilities {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut abilities = Abilities::default();
    for word in name.split('.') {
        match word {
            "no-namespaces" => abilities.namespaces = false,
            "no-groups" => abilities.control_groups = false,
            word => {
                if let Some(abi) = word.strip_prefix("landlock-").and_then(|abi| abi.parse().ok()) {
                    abilities.landlock_abi = abi;
                }
            }
        }
    }
    abilities
}
