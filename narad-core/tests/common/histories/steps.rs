//! A history as data: what happens to the log and to its disk.

use narad_core::testkit::{Fault, Survival};

/// What the log lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    Honest,
    /// Every byte is stored changed, and each call moves one.
    Garbled,
    /// It acknowledges syncs that it does not do, now and then.
    Lying,
}

#[derive(Debug, Clone)]
pub struct Setup {
    pub drive: Drive,
    pub disk_seed: u64,
    pub segment_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub setup: Setup,
    pub steps: Vec<Step>,
}

/// Records of one batch: how many, and how long each is.
#[derive(Debug, Clone, Copy)]
pub struct Records {
    pub count: usize,
    pub len: usize,
}

/// What a sweep is told to keep.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// As the log's own policy has it.
    ByAge,
    Newest(u64),
}

/// How the log comes to be opened again.
#[derive(Debug, Clone, Copy)]
pub enum Down {
    Close,
    ProcessCrash,
    PowerLoss(Survival),
}

/// A fault in a step is in force during its call alone.
#[derive(Debug, Clone)]
pub enum Step {
    Append(Records),
    /// `tries`: how often a caller whose commit failed tries again.
    Commit {
        records: Records,
        refused_by_codec: bool,
        tries: usize,
        fault: Option<Fault>,
    },
    /// Commits that arrive while another is under way; of some of them the caller goes away before their cycle.
    Together {
        first: Records,
        is_async: bool,
        others: Vec<(Records, Caller)>,
        fault: Option<Fault>,
    },
    CommitAppended,
    Read {
        at: f64,
        fault: Option<Fault>,
    },
    ReadBatch {
        at: f64,
        max_records: usize,
        max_bytes: usize,
        fault: Option<Fault>,
    },
    Pass {
        ms: u64,
    },
    WallClock {
        ms: i64,
    },
    /// The log is asked for its descriptors.
    Release,
    Sweep {
        keep: Keep,
        fault: Option<Fault>,
    },
    Reopen {
        fault: Option<Fault>,
    },
    /// `stays`: the log that was opened with the faults in force is gone on with, where it could be.
    Down {
        how: Down,
        stays: bool,
        fault: Option<Fault>,
    },
    /// In force from now on.
    Fault(Fault),
    /// So many bytes more, and the disk is full.
    Fill {
        free: u64,
    },
    ClearFaults,
    Lie(bool),
    /// One sync is acknowledged and not done.
    SkipSync {
        nth: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Stays,
    /// Before its cycle starts.
    Leaves,
}

impl Plan {
    /// Falls as the steps become plainer.
    pub fn weight(&self) -> usize {
        self.steps.iter().map(|step| format!("{step:?}").len()).sum()
    }
}

impl Step {
    /// The same step with something less to it, in several ways.
    pub fn plainer(&self) -> Vec<Self> {
        let mut plainer = Vec::new();
        let mut or = |change: &dyn Fn(&mut Self)| {
            let mut step = self.clone();
            change(&mut step);
            if format!("{step:?}").len() < format!("{self:?}").len() {
                plainer.push(step);
            }
        };
        let one = Records { count: 1, len: 1 };
        or(&|step| match step {
            Self::Append(records) | Self::Commit { records, .. } => *records = one,
            Self::Together { first, others, .. } => {
                *first = one;
                others.iter_mut().for_each(|(records, _)| *records = one);
            }
            _ => {}
        });
        or(&|step| match step {
            Self::Commit { tries, .. } => *tries = 0,
            Self::Together { others, .. } => others.truncate(1),
            _ => {}
        });
        or(&|step| match step {
            Self::Commit { fault, .. }
            | Self::Together { fault, .. }
            | Self::Read { fault, .. }
            | Self::ReadBatch { fault, .. }
            | Self::Sweep { fault, .. }
            | Self::Reopen { fault }
            | Self::Down { fault, .. } => *fault = None,
            _ => {}
        });
        or(&|step| {
            if let Self::Together { first, .. } = *step {
                *step = Self::Commit { records: first, refused_by_codec: false, tries: 0, fault: None };
            }
        });
        plainer
    }
}
