//! What the ranks of a run do at this moment, from what they write into its folder.

mod life;
mod now;
mod screen;
mod seen;

pub use life::Life;
pub use now::{FILE, Now, State, clock};
pub use screen::watch;
pub use seen::Seen;
