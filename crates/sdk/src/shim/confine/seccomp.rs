//! Which sockets can be made, by a filter of system calls.
//!
//! A filter sees numbers and not what pointers lead to, so it decides at the making of a socket, by its family, type and
//! protocol. io_uring would make sockets without a system call of that name, so there is none.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::process::Network;

/// The port that names are asked at, over UDP.
pub(super) const DNS_PORT: u16 = 53;

/// What a forbidden call answers.
const REFUSED: u32 = libc::EACCES.unsigned_abs();

/// The low bits of a socket's type; flags are above.
const TYPE_MASK: u64 = 0xf;

/// Numbers of the x32 interface have this bit, and are calls of the same machine.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

/// Restricts this process and all that it starts.
pub(super) fn restrict(network: &Network) -> Result<(), String> {
    if *network == Network::Open {
        return Ok(());
    }
    let filter = filter(network).map_err(|error| format!("seccomp: {error}"))?;
    apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))
}

fn filter(network: &Network) -> Result<BpfProgram, BackendError> {
    let refused = match network {
        Network::Open => Vec::new(),
        Network::None | Network::Recorder => vec![rule(vec![is_not(DOMAIN, libc::AF_UNIX)?])?],
        Network::Ports(ports) => beside_tcp(ports.contains(&DNS_PORT))?,
    };
    let mut rules = BTreeMap::new();
    let mut refuse = |call: i64, refused: Vec<SeccompRule>| {
        #[cfg(target_arch = "x86_64")]
        rules.insert(call | X32_BIT, refused.clone());
        rules.insert(call, refused);
    };
    refuse(libc::SYS_socket, refused.clone());
    refuse(libc::SYS_socketpair, refused);
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        refuse(call, Vec::new());
    }
    if matches!(network, Network::Ports(_)) {
        // A connection that is made by sending is not seen by Landlock.
        let fast_open = |flags| has(flags, libc::MSG_FASTOPEN);
        refuse(libc::SYS_sendto, vec![rule(vec![fast_open(3)?])?]);
        refuse(libc::SYS_sendmsg, vec![rule(vec![fast_open(2)?])?]);
        refuse(libc::SYS_sendmmsg, vec![rule(vec![fast_open(3)?])?]);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    // A call of another machine's interface, such as that of 32 bits, ends the process.
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(REFUSED), arch)?.try_into()
}

const DOMAIN: u8 = 0;
const TYPE: u8 = 1;
const PROTOCOL: u8 = 2;

/// Refuses what is neither Unix, nor netlink (by which a resolver learns of interfaces), nor plain TCP; with `udp` that
/// too. Other protocols over IP, such as MPTCP and SCTP, make connections that Landlock does not see.
fn beside_tcp(udp: bool) -> Result<Vec<SeccompRule>, BackendError> {
    let not_ip = [libc::AF_UNIX, libc::AF_NETLINK];
    let elsewhere = || not_ip.into_iter().map(|family| is_not(DOMAIN, family)).collect::<Result<Vec<_>, _>>();
    let with = |mut conditions: Vec<SeccompCondition>, more: Vec<SeccompCondition>| {
        conditions.extend(more);
        rule(conditions)
    };
    let mut rules = vec![with(elsewhere()?, vec![is_not(DOMAIN, libc::AF_INET)?, is_not(DOMAIN, libc::AF_INET6)?])?];
    let allowed = |kind| kind == libc::SOCK_STREAM || udp && kind == libc::SOCK_DGRAM;
    for kind in (0..16).filter(|kind| !allowed(*kind)) {
        rules.push(with(elsewhere()?, vec![masked(TYPE, TYPE_MASK, kind)?])?);
    }
    let mut protocol = vec![is_not(PROTOCOL, 0)?, is_not(PROTOCOL, libc::IPPROTO_TCP)?];
    if udp {
        protocol.push(is_not(PROTOCOL, libc::IPPROTO_UDP)?);
    }
    rules.push(with(elsewhere()?, protocol)?);
    Ok(rules)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

fn is_not(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(value.unsigned_abs()))
}

fn has(argument: u8, bit: i32) -> Result<SeccompCondition, BackendError> {
    masked(argument, u64::from(bit.unsigned_abs()), bit)
}

fn masked(argument: u8, mask: u64, value: i32) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_filter_of_bounded_length() {
        for network in [Network::None, Network::Recorder, Network::Ports(vec![443]), Network::Ports(vec![443, 53])] {
            let length = filter(&network).expect("it compiles").len();
            assert!((10..4096).contains(&length), "{network:?}: {length}");
        }
    }
}
