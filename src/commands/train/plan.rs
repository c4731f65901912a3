//! What the settings of a run mean for its data and its ranks.

use std::sync::Arc;

use super::sets::Sets;
use super::settings::{BatchSize, Growth, Settings};
use crate::comm::Comm;
use crate::commands::device::Chosen;
use crate::data::{Dataset, Scaling, Steps, split};
use crate::exchange::{Kind, OnDevice, fastest};
use crate::nn::{self, Model};
use crate::optim::Schedule;
use crate::train::{Batches, CHUNK, Every, Need, readable};
use crate::{Error, Result};

/// What the settings mean for this data and these ranks.
pub(in crate::commands) struct Plan {
    pub(in crate::commands) data: Arc<Dataset>,
    pub(in crate::commands) test: Option<Dataset>,
    /// The part of `data` that is held out; `data` is then the rest.
    pub(in crate::commands) validation: Option<Dataset>,
    pub(in crate::commands) scaling: Scaling,
    pub(in crate::commands) exchange: Kind,
    /// What computes, for the user, and whether that is an emulator.
    pub(in crate::commands) device: String,
    pub(in crate::commands) emulated: bool,
    /// Why this exchange, where it was chosen.
    pub(in crate::commands) why: Option<String>,
    /// Before the batch has grown by noise.
    pub(in crate::commands) steps: Steps,
    /// The most samples of a step, and what that would be were memory without end.
    pub(in crate::commands) limit: usize,
    pub(super) asked: usize,
    pub(in crate::commands) schedule: Schedule,
    pub(in crate::commands) eval_every: Every,
    pub(in crate::commands) log_every: u64,
}

impl Plan {
    /// The plan and its model, where the ranks of `comm` compute as is chosen; `memory` is what each may take, where that is known.
    pub(in crate::commands) fn new(
        (comm, ranks): (&dyn Comm, usize),
        settings: &Settings,
        sets: Sets,
        chosen: &Chosen,
        memory: Option<u64>,
    ) -> Result<(Self, Model)> {
        let exchange = match (settings.exchange, &chosen.device) {
            (Kind::Auto, Some(_)) => Kind::OnDevice,
            (exchange, _) => exchange,
        };
        let Sets {
            data: whole,
            test,
            kept,
        } = sets;
        let (data, validation) = match settings.validation {
            Some(share) => {
                let [data, validation] = split::divide(&whole, share, settings.seed)?;
                (data, Some(validation))
            }
            None => (whole, None),
        };
        data.enough_for(ranks)?;
        settings.augment.check(data.shape)?;
        if let Some(test) = &test {
            data.fits(test)?;
        }
        let scaling = match settings.normalize {
            true => data.normalization()?,
            false => Scaling::unit(data.shape.c),
        };
        if let BatchSize::Global(all) = settings.batch
            && all < ranks
        {
            let problem =
                format!("--global-batch {all} is less than one sample for each of {ranks} ranks");
            return Err(Error::Usage(problem));
        }
        let batch = settings.batch.of_step(exchange, ranks);
        let mut steps = Steps::new(data.len(), batch, settings.length);
        let mut schedule = settings.schedule(batch)?;
        let limit = settings.limit(&steps, exchange, ranks)?;
        let mut model = settings.model.build(data.shape, data.classes)?;
        settings.check_shards(&model, ranks)?;
        let team = if exchange.is_synchronous() { ranks } else { 1 };
        // Every thread but the first has gradients of its own.
        let spare = settings.spare_sums(ranks);
        let copies = (settings.threads - 1 + spare) as u64 + u64::from(settings.keep_best);
        let how = (settings.rule, exchange);
        let need = Need::of(&model, &data, how, ranks, copies);
        let mut need = need.with_snapshot(&model, how, ranks, settings.keep_best);
        need.fixed = need.fixed.saturating_add(kept);
        if let Some(longest) = validation.iter().chain(&test).map(Dataset::len).max() {
            need.least = longest.div_ceil(team).min(CHUNK);
        }
        let asked = limit;
        let samples = data.len();
        let batches = Batches {
            batch,
            limit,
            team,
            samples,
        };
        let (mut device, mut planned) = (chosen.words.clone(), 0);
        let limit = match &chosen.device {
            None => batches.limit("each rank", memory, |n| need.bytes(n))?,
            Some(_) => {
                let batches = batches.counted(nn::device::most(&mut model))?;
                let fixed = OnDevice::bytes(comm, model.params(), settings.rule.state());
                let pixels = data.element() == "u8";
                let mut bytes = |n: usize| fixed + nn::device::bytes(&mut model, n, pixels);
                let limit = batches.limit("the device of a rank", memory, &mut bytes)?;
                planned = bytes(batches.share(limit));
                limit
            }
        };
        if planned > 0 {
            device += &format!(", {} planned", readable(planned));
        }
        if settings.grow == Some(Growth::Schedule) {
            schedule.grow(&mut steps, limit);
        }
        let eval_every = match (settings.eval_every, settings.until_loss) {
            (Some(every), _) => Every::Steps(every),
            (None, Some(_)) => Every::Steps(100),
            (None, None) => Every::Epoch,
        };
        let tenth = (eval_every.at_first(&steps) / 10).max(1);
        let log_every = settings.log_every.unwrap_or(tenth);
        let plan = Self {
            data: Arc::new(data),
            test,
            validation,
            scaling,
            exchange,
            device,
            emulated: chosen.is_emulated(),
            why: (exchange == Kind::OnDevice).then(|| OnDevice::way(comm).into()),
            steps,
            limit,
            asked,
            schedule,
            eval_every,
            log_every,
        };
        Ok((plan, model))
    }
}

impl Plan {
    /// The most samples that one of a team takes at once.
    pub(super) fn share(&self, team: usize) -> usize {
        self.limit.min(self.data.len()).div_ceil(team)
    }

    /// Settles which exchange it is, where that was left open and was not found out `before`; *collective*.
    pub(super) fn choose_exchange(
        &mut self,
        comm: &dyn Comm,
        settings: &Settings,
        params: usize,
        before: Option<Kind>,
    ) -> Result<()> {
        if self.exchange != Kind::Auto {
            return Ok(());
        }
        if let Some(kind) = before {
            (self.exchange, self.why) = (kind, Some("as before".into()));
            return Ok(());
        }
        self.exchange = Kind::NodeShared;
        if settings.tune && comm.size() > 1 {
            let (kind, why) = fastest(comm, params)?;
            (self.exchange, self.why) = (kind, Some(why));
        }
        Ok(())
    }
}
