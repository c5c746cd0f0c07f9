//! Where a database says that an address is.
//!
//! For: searches that begin at a client's address. Not for: choosing sites (`steering`).
//! Cost: one lookup and two fields of its record.

use std::net::IpAddr;

use whered_geo::Place;

use crate::engine::Engine;
use crate::error::ExplainError;

impl Engine {
    /// The place of an address in a database: `location.longitude` and `location.latitude` of its
    /// record. `None` when there is no record, or no place in it.
    ///
    /// # Errors
    /// [`ExplainError`] for an unknown database, or one that cannot be read there.
    pub fn place_of_address(
        &self,
        database: &str,
        address: IpAddr,
    ) -> Result<Option<Place>, ExplainError> {
        let generation = self.generation();
        let named = generation
            .database(database)
            .ok_or_else(|| ExplainError::NoSuch { what: "database", name: database.to_owned() })?;
        let unreadable =
            |error: whered_mmdb::MmdbError| ExplainError::Unreadable(error.to_string());
        let Some(record) = named.answer(address).map_err(unreadable)?.record else {
            return Ok(None);
        };
        let number = |path: &str| {
            let path = path.parse().expect("a constant path of two words");
            named.database().number(record, &path).map_err(unreadable)
        };
        let (longitude, latitude) = (number("location.longitude")?, number("location.latitude")?);
        let place = longitude.zip(latitude);
        // A place that is not on the globe is none.
        Ok(place.and_then(|(longitude, latitude)| Place::new_geographic(longitude, latitude).ok()))
    }
}
