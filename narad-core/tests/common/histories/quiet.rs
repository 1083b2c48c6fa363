//! Runs something that may panic, and takes what it says as a value: a history that is being shrunk fails many times.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a panic in `work` says, if there is one. Other threads panic as ever.
pub fn panics(work: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if QUIET.get() {
                SAID.set(info.to_string());
            } else {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    outcome.err().map(|_| SAID.take())
}
