//! Questions about pools that ask more than one client's choice.
//!
//! Not for: changes of sites (`sites`), the choice itself (`steering`).

use std::sync::Arc;

use super::Engine;
use crate::error::ExplainError;
use crate::steering::catchment::{Catchment, CatchmentGrid};

impl Engine {
    /// Which parts of the globe a pool sends to which of its sites, by the places of a database
    /// (`None`: the one that the pool takes clients' places from), with the generation's number. A
    /// drawing is kept until the pool or the database changes. `is_over` is called now and then,
    /// and ends it.
    ///
    /// # Errors
    /// [`ExplainError`]: no such pool or database, one that cannot be read, or `is_over` said so.
    pub fn catchment(
        &self,
        pool: &str,
        database: Option<&str>,
        grid: CatchmentGrid,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Result<(u64, Arc<Catchment>), ExplainError> {
        let no_such = |what, name: &str| ExplainError::NoSuch { what, name: name.to_owned() };
        let generation = self.generation();
        let index = generation.pool_called(pool).ok_or_else(|| no_such("pool", pool))?;
        let steering = generation.steering(index);
        let database = match database {
            Some(name) => generation.database(name).ok_or_else(|| no_such("database", name))?,
            None => steering
                .source()
                .or_else(|| generation.default_database())
                .ok_or_else(|| no_such("database", "of places"))?,
        };
        let drawn = self.catchments.draw(steering, database, grid, &self.live(), is_over)?;
        Ok((generation.number(), drawn))
    }
}
