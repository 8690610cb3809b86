//! What a thread asks of the scheduler.

use std::io;

use super::socket;

/// Puts the calling thread before all ordinary ones (`SCHED_FIFO`, the lowest priority of that class).
///
/// # Errors
/// What the system says: it needs CAP_SYS_NICE or a limit (`RLIMIT_RTPRIO`).
pub fn real_time() -> io::Result<()> {
    class(libc::SCHED_FIFO, 1)
}

/// Makes the calling thread an ordinary one.
///
/// # Errors
/// What the system says.
pub fn ordinary() -> io::Result<()> {
    class(libc::SCHED_OTHER, 0)
}

fn class(policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: All zeros are a `sched_param`.
    let mut wish: libc::sched_param = unsafe { socket::zeroed() };
    wish.sched_priority = priority;
    // SAFETY: The kernel reads one `sched_param`; thread 0 is the calling one.
    socket::checked(unsafe { libc::sched_setscheduler(0, policy, &raw const wish) }).map(drop)
}
