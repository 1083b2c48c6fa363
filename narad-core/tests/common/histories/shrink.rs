//! Makes a history that fails shorter and plainer, as long as it still fails.

use super::steps::{Drive, Plan};

/// Histories that are tried, at most.
const TRIES: usize = 1000;
/// Seeds of the disk that each of them is tried with.
const CHANCES: u64 = 8;

struct Shrinking<F> {
    plan: Plan,
    why: String,
    tries: usize,
    fails: F,
}

/// The shortest history found that fails, and how it does.
pub fn shrink(plan: Plan, why: String, fails: impl Fn(&Plan) -> Option<String>) -> (Plan, String) {
    let mut shrinking = Shrinking { plan, why, tries: 0, fails };
    loop {
        let before = (shrinking.plan.steps.len(), shrinking.plan.weight());
        shrinking.drop_runs();
        shrinking.simplify();
        if (shrinking.plan.steps.len(), shrinking.plan.weight()) == before || shrinking.tries >= TRIES {
            return (shrinking.plan, shrinking.why);
        }
    }
}

impl<F: Fn(&Plan) -> Option<String>> Shrinking<F> {
    /// Keeps a plan that still fails.
    fn keep(&mut self, plan: Plan) -> bool {
        if self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        // A step less, and the disk's chances fall on others: a few more rolls of the dice.
        for chance in 0..CHANCES {
            let mut plan = plan.clone();
            plan.setup.disk_seed = plan.setup.disk_seed.wrapping_add(chance);
            if let Some(why) = (self.fails)(&plan) {
                (self.plan, self.why) = (plan, why);
                return true;
            }
        }
        false
    }

    /// Drops runs of steps: half of them, a quarter, down to single ones.
    fn drop_runs(&mut self) {
        let mut run = self.plan.steps.len().div_ceil(2);
        while run > 0 {
            let mut end = self.plan.steps.len();
            while end > 0 {
                let start = end.saturating_sub(run);
                let mut shorter = self.plan.clone();
                shorter.steps.drain(start..end);
                self.keep(shorter);
                end = start.min(self.plan.steps.len());
            }
            run /= 2;
        }
    }

    /// Makes the drive and each step plainer.
    fn simplify(&mut self) {
        if self.plan.setup.drive == Drive::Garbled {
            let mut plain = self.plan.clone();
            plain.setup.drive = Drive::Honest;
            self.keep(plain);
        }
        for index in 0..self.plan.steps.len() {
            loop {
                let plainer = self.plan.steps[index].plainer();
                let kept = plainer.into_iter().any(|step| {
                    let mut plan = self.plan.clone();
                    plan.steps[index] = step;
                    self.keep(plan)
                });
                if !kept {
                    break;
                }
            }
        }
    }
}
