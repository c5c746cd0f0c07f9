//! How much smaller a list may be than the one whose place it takes.
//!
//! For: lists that are empty or cut off, from any source. Not for: reading lists.

/// How much shorter a list may be than the one that it replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkLimit {
    /// Whether a list without members is taken.
    pub allows_empty: bool,
    /// The part of the members in percent that must not be lost; with 100 every list that has
    /// members is taken.
    pub percent: u8,
}

impl Default for ShrinkLimit {
    /// No empty list, and none that has lost half of the members or more.
    fn default() -> ShrinkLimit {
        ShrinkLimit { allows_empty: false, percent: 50 }
    }
}

impl ShrinkLimit {
    /// Takes every list.
    pub const NONE: ShrinkLimit = ShrinkLimit { allows_empty: true, percent: 100 };

    /// Whether a list of `new` members may take the place of `held` ones.
    ///
    /// # Errors
    /// The message says what was found and what is allowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use whered_ip::ShrinkLimit;
    ///
    /// let limit = ShrinkLimit::default();
    /// assert!(limit.check(1000, 501).is_ok());
    /// assert!(limit.check(0, 1).is_ok());
    /// assert_eq!(
    ///     limit.check(1000, 500).unwrap_err(),
    ///     "found 500 members in the place of 1000, a loss of 50 % or more"
    /// );
    /// assert_eq!(limit.check(0, 0).unwrap_err(), "found no members");
    /// ```
    pub fn check(self, held: usize, new: usize) -> Result<(), String> {
        if new == 0 {
            let refusal = || "found no members".to_owned();
            return if self.allows_empty { Ok(()) } else { Err(refusal()) };
        }
        let lost = held.saturating_sub(new) as u128;
        let is_limited = self.percent < 100 && lost > 0;
        if is_limited && lost * 100 >= held as u128 * u128::from(self.percent) {
            let percent = self.percent;
            return Err(format!(
                "found {new} members in the place of {held}, a loss of {percent} % or more"
            ));
        }
        Ok(())
    }
}
