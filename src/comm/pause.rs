//! Waiting for other ranks without a system call, where they are quick, and without taking their core, where they are not.

/// Looks before the core is offered to others: ranks may be more than cores.
const LOOKS: u32 = 300;

/// A wait for something that another rank will write.
#[derive(Default)]
pub struct Pause(u32);

impl Pause {
    /// Between two looks.
    pub fn once(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 < LOOKS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
