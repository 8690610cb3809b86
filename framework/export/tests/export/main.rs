//! Whole bundles from synthetic reports, read back as a user would.

#[cfg(test)]
mod bundle;
#[cfg(test)]
mod conservation;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod load;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod report;
#[cfg(test)]
mod strange;
#[cfg(test)]
mod support;
#[cfg(test)]
mod verdicts;
