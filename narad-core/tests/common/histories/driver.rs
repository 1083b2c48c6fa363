//! Runs the steps of a history against the engine, and holds each outcome against the model.

use std::time::Duration;

use narad_core::{
    Error, Result,
    format::{Batch, Offset},
    log::Log,
    testkit::{CallKind, Fault, FaultId, Survival},
};

use super::{
    callers, check,
    quiet::panics,
    steps::{Down, Drive, Keep, Plan, Records, Step},
    world::{Newest, World, by_age},
};
use crate::model::{Model, batch};

/// What goes wrong in this history, if anything does.
pub fn fails(plan: &Plan) -> Option<String> {
    let world = World::new(&plan.setup);
    panics(|| {
        let mut history = History::begin(&world);
        for step in &plan.steps {
            history.step(step);
        }
    })
}

pub struct History<'a> {
    pub world: &'a World,
    pub model: Model,
    pub log: Log,
    /// Single lies that are still to come.
    skips: Vec<FaultId>,
}

impl<'a> History<'a> {
    fn begin(world: &'a World) -> Self {
        let log = world.open().expect("a log on an empty disk");
        let mut model = Model::default();
        model.recover(&log, true);
        Self { world, model, log, skips: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Append(records) => {
                let payloads = self.payloads(*records);
                self.model.append(&self.log, &payloads).unwrap();
            }
            Step::Commit { records, refused_by_codec, tries, fault } => {
                self.commit(*records, *refused_by_codec, *tries, fault.as_ref());
            }
            Step::Together { first, is_async, others, fault } => {
                callers::together(self, *first, *is_async, others, fault.as_ref());
            }
            Step::CommitAppended => _ = self.model.commit_appended(&self.log),
            Step::Read { at, fault } => self.read(*at, fault.as_ref()),
            Step::ReadBatch { at, max_records, max_bytes, fault } => {
                self.read_batch(*at, *max_records, *max_bytes, fault.as_ref());
            }
            Step::Pass { ms } => {
                self.world.clock.advance(Duration::from_millis(*ms));
                self.world.runtime.run_due();
            }
            Step::WallClock { ms } => self.world.set_wall_clock(*ms),
            Step::Release => self.release(),
            Step::Sweep { keep, fault } => self.sweep(*keep, fault.as_ref()),
            Step::Reopen { fault } => _ = self.reopen(fault.as_ref()),
            Step::Down { how, stays, fault } => self.down(*how, *stays, fault.as_ref()),
            Step::Fault(fault) => _ = self.world.disk.inject(fault.clone()),
            Step::Fill { free } => {
                let used = self.world.disk.used_bytes();
                self.world.disk.set_capacity(Some(used + free));
            }
            Step::ClearFaults => self.world.clear_faults(),
            Step::Lie(lies) => {
                self.model.lies();
                self.world.disk.lie_about_syncs(*lies);
            }
            Step::SkipSync { nth } => {
                self.model.lies();
                self.skips.push(self.world.disk.inject(Fault::skip(CallKind::SyncData).at(*nth)));
            }
        }
        self.model.settle(&self.log);
        check::index_agrees(self.world, &self.log, &self.model);
    }

    pub fn payloads(&mut self, records: Records) -> Vec<String> {
        self.model.payloads(records.count, records.len)
    }

    /// A call with a fault in force that ends with it.
    pub fn during<T>(&self, fault: Option<&Fault>, call: impl FnOnce(&Log) -> T) -> T {
        let fault = fault.map(|fault| self.world.disk.inject(fault.clone()));
        let outcome = call(&self.log);
        if let Some(fault) = fault {
            self.world.disk.remove_fault(fault);
        }
        outcome
    }

    fn commit(&mut self, records: Records, refused_by_codec: bool, tries: usize, fault: Option<&Fault>) {
        let payloads = self.payloads(records);
        let asked = Model::ask(&self.log);
        self.world.codec.refuse(refused_by_codec);
        let outcome = self.during(fault, |log| log.commit(batch(&payloads)));
        self.world.codec.refuse(false);
        let outcome = outcome.map(|offsets| vec![offsets]);
        let failed = self.model.answered(&self.log, &asked, vec![(vec![payloads.clone()], outcome)]);
        let Some(mut error) = failed else { return };
        // A caller tries again until the disk is well: the batch then lands once.
        for tried in 0..tries {
            if tried == 20 {
                self.world.clear_faults();
            }
            if matches!(error, Error::Poisoned { .. }) && self.reopen(None).is_err() {
                continue;
            }
            match self.model.commit(&self.log, &payloads) {
                Some(again) => error = again,
                None => return,
            }
            assert!(tried <= 20, "the disk is well, and a commit fails: {error}");
        }
    }

    /// The offset at this part of what there is and was, and a little above it.
    fn offset(&self, at: f64) -> u64 {
        ((self.model.high_watermark() + 2) as f64 * at) as u64
    }

    fn read(&self, at: f64, fault: Option<&Fault>) {
        let at = self.offset(at);
        let (oldest, end) = (self.log.oldest_offset().get(), self.log.high_watermark().get());
        match self.during(fault, |log| log.read(Offset::new(at).unwrap())) {
            Ok(record) => {
                assert_eq!(record.offset.get(), at);
                let acked = self.model.acked()[at as usize].as_ref().expect("it could not be read before");
                assert_eq!(record.payload, acked.as_bytes());
            }
            Err(Error::NotYet { .. }) => assert!(end <= at),
            Err(Error::Expired { .. }) => assert!(oldest > at),
            Err(Error::Corrupt { .. }) => assert!(self.model.may_be_unreadable(at), "{at} is there"),
            Err(error) => assert!(is_io(&error), "{error}"),
        }
    }

    fn read_batch(&self, at: f64, max_records: usize, max_bytes: usize, fault: Option<&Fault>) {
        let from = self.offset(at);
        let read =
            self.during(fault, |log| log.read_batch(Offset::new(from).unwrap(), max_records, max_bytes));
        let batch = match read {
            Ok(batch) => batch,
            Err(Error::Expired { oldest, .. }) => return assert!(oldest.get() > from),
            Err(error) => return assert!(is_io(&error), "{error}"),
        };
        assert!((from..=self.log.high_watermark().get().max(from)).contains(&batch.next.get()));
        assert!(batch.records.len() <= max_records);
        let lost: u64 = batch.unreadable.iter().map(|lost| lost.end.since(lost.start)).sum();
        assert_eq!(batch.records.len() as u64 + lost, batch.next.since(Offset::new(from).unwrap()), "no gap");
        let sizes = batch.records.iter().map(|record| record.payload.len());
        assert!(batch.records.len() <= 1 || sizes.sum::<usize>() <= max_bytes);
        for record in batch.records {
            let acked = self.model.acked()[record.offset.get() as usize].as_ref();
            assert_eq!(record.payload, acked.expect("it could not be read before").as_bytes());
        }
    }

    /// A log in which everything is committed gives its descriptors up, and one that is poisoned does not.
    fn release(&self) {
        let is_settled = self.log.next_offset() == self.log.high_watermark();
        let released = self.log.release_files();
        if self.log.is_poisoned() {
            assert!(!released, "a poisoned log keeps its files");
        } else if is_settled {
            assert!(released, "nothing is appended, unsynced or uncommitted");
        }
        assert!(!released || self.world.disk.open_files() == 0, "a log that says so holds no file");
    }

    fn sweep(&mut self, keep: Keep, fault: Option<&Fault>) {
        let keeps = match keep {
            Keep::ByAge => 0,
            Keep::Newest(records) => {
                self.log.set_retention(std::sync::Arc::new(Newest(records)));
                records
            }
        };
        let (failed, oldest) = (self.world.failed_unlinks(), self.log.oldest_offset());
        let outcome = self.during(fault, |log| log.sweep(None));
        self.log.set_retention(by_age());
        if let Ok(swept) = &outcome {
            assert_eq!(swept.records, self.log.oldest_offset().since(oldest), "what a sweep says it deleted");
        }
        // A directory is synced for what is unlinked: not for what an earlier process has unlinked.
        let is_durable = self.log.oldest_offset() > oldest && self.world.failed_unlinks() == failed;
        self.model.swept(&self.log, keeps, is_durable);
    }

    fn reopen(&mut self, fault: Option<&Fault>) -> Result<()> {
        let was_poisoned = self.log.is_poisoned();
        self.during(fault, Log::reopen)?;
        self.model.reopened(&self.log, was_poisoned);
        Ok(())
    }

    fn down(&mut self, how: Down, stays: bool, fault: Option<&Fault>) {
        let was_poisoned = self.log.is_poisoned();
        let exact = match how {
            Down::Close => self.close(fault) && !was_poisoned,
            Down::ProcessCrash | Down::PowerLoss(_) => false,
        };
        match how {
            Down::PowerLoss(survival) => self.lose_power(survival),
            // A sync has failed: nobody can tell what the system's cache is worth, so the machine goes too.
            Down::ProcessCrash if was_poisoned => self.lose_power(Survival::Random),
            Down::Close if !exact => self.lose_power(Survival::Random),
            Down::Close | Down::ProcessCrash => self.world.disk.crash_process(),
        }
        self.open(exact, stays, fault.filter(|_| !matches!(how, Down::Close)));
    }

    fn close(&mut self, fault: Option<&Fault>) -> bool {
        let closed = self.during(fault, Log::close);
        assert_eq!(self.world.disk.open_files(), 0, "a closed log holds no file");
        assert!(matches!(self.log.append(&Batch::of(b"", b"")), Err(Error::Closed)));
        assert!(matches!(self.log.read(Offset::ZERO), Err(Error::Closed)));
        closed.is_ok()
    }

    fn lose_power(&mut self, survival: Survival) {
        let is_garbled = self.world.setup.drive == Drive::Garbled;
        let survival = if is_garbled && survival == Survival::Random { Survival::Nothing } else { survival };
        self.world.disk.lie_about_syncs(false);
        self.skips.drain(..).for_each(|skip| self.world.disk.remove_fault(skip));
        self.world.disk.power_loss_keeping(survival);
        self.model.lose_power();
    }

    /// Opens the log, first with whatever faults are in force.
    fn open(&mut self, exact: bool, stays: bool, fault: Option<&Fault>) {
        match self.during(fault, |_| self.world.open()) {
            // Where `hwm` could not be read, more than it states is visible for as long as this open lasts.
            Ok(log) => {
                let mut model = self.model.clone();
                model.recover(&log, false);
                if stays && !self.model.is_lied_to() && model.high_watermark() == self.model.high_watermark()
                {
                    (self.model, self.log) = (model, log);
                    return;
                }
            }
            // A sync that failed in an open leaves a cache behind that nobody can trust.
            Err(_) => self.lose_power(Survival::Random),
        }
        self.world.clear_faults();
        self.world.disk.crash_process();
        self.log = self.world.open().expect("an open of a disk without faults");
        self.model.recover(&self.log, exact);
        check::settled(self.world, &self.log, &self.model);
    }
}

fn is_io(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::DiskFull { .. })
}
