//! A Core that can be killed: `fake-core BASE DRIVER KEEPER` starts the fake driver below BASE, lets it detach a process,
//! prints the driver's process id and waits for its end.

use std::io::Write;

use pintle_sdk::driver::Core;
use pintle_sdk::process::{Environment, Program, Shim};
use pintle_testkit::drivers::{attempts, plan, test};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, driver, keeper] = args.as_slice() else { panic!("usage") };
    test(async {
        let program = Program::at(driver).expect("the fake driver");
        let shim = Shim::Path(keeper.into());
        let launch = pintle_sdk::driver::DriverLaunch::new(program, Environment::empty(), shim, base);
        let mut core = Core::start(launch).await.expect("the driver starts");
        core.prepare(plan(&[])).await.expect("the driver prepares");
        attempts(&mut core, 1, &[("detach", "write")]).await.expect("it detaches a process");
        writeln!(std::io::stdout(), "{}", core.id()).expect("stdout");
        std::future::pending::<()>().await;
    });
}
