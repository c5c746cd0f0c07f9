//! Rounds: what is cut, what is compared, and that a wrong engine cannot win.

use super::*;
use crate::data::{Scale, city};
use crate::lookup::addresses::lists;
use crate::lookup::engine::{Calls, Input, Wants};

/// Says the number of addresses, or one more from some place on; or one more for every octet.
struct Counting {
    wrong_from: usize,
    is_slow: bool,
    has_wrong_octets: bool,
}

impl Engine for Counting {
    fn name(&self) -> String {
        "counting".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn can(&self, task: Task) -> bool {
        task.calls == Calls::Single
    }

    fn run(&self, task: Task, _: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let is_wrong =
            part.start >= self.wrong_from || self.has_wrong_octets && task.wants == Wants::Octets;
        Ok(part.len() as u64 + u64::from(is_wrong))
    }

    fn is_slow(&self) -> bool {
        self.is_slow
    }
}

const TASK: Task = Task { input: Input::Binary, calls: Calls::Single, wants: Wants::Record };

fn list() -> AddressList {
    let database = city(1, Scale::Small).unwrap().database;
    lists(&database, 1000, 1).unwrap().remove(0)
}

fn counting(wrong_from: usize, is_slow: bool) -> Counting {
    Counting { wrong_from, is_slow, has_wrong_octets: false }
}

#[test]
fn rounds_cover_the_list_once() {
    let parts: Vec<Range<usize>> = Rounds::new(25, 10).parts(25).collect();
    assert_eq!(parts, [0..10, 10..20, 20..25]);
    assert_eq!(Rounds::new(0, 10).parts(0).count(), 0);
    assert_eq!(Rounds::new(25, 100).parts(25).next(), Some(0..25));
}

#[test]
fn the_lead_in_is_what_comes_before_the_part() {
    let rounds = Rounds::new(25, 10);
    assert_eq!(rounds.before(&(10..20), 25), 0..10);
    assert_eq!(rounds.before(&(0..10), 25), 15..25);
}

fn run(engines: &[&dyn Engine]) -> Result<Vec<Measured>, String> {
    run_for(Wants::Record, engines)
}

fn run_for(wants: Wants, engines: &[&dyn Engine]) -> Result<Vec<Measured>, String> {
    let task = Task { wants, ..TASK };
    let contenders: Vec<Contender<'_>> =
        engines.iter().map(|&engine| Contender { engine, task }).collect();
    interleaved(&contenders, &list(), Rounds::new(1000, 50))
}

#[test]
fn slow_engines_have_a_tenth_of_the_rounds() {
    let measured = run(&[&counting(9999, false), &counting(9999, true)]).unwrap();
    let counts: Vec<usize> = measured.iter().map(|one| one.addresses).collect();
    assert_eq!(counts, [1000, 100]);
    assert_eq!(measured[0].checksum(), 1000);
}

#[test]
fn a_wrong_answer_in_one_round_fails_the_run() {
    let error = run(&[&counting(9999, false), &counting(500, false)]).unwrap_err();
    assert!(error.contains("same4, addresses 500..550"), "{error}");
}

#[test]
fn a_wrong_octet_inside_a_text_fails_the_run() {
    let wrong = Counting { has_wrong_octets: true, ..counting(9999, false) };
    let error = run_for(Wants::Fields, &[&counting(9999, false), &wrong]).unwrap_err();
    assert!(error.contains("addresses 0..50: counting (binary->octets/single)"), "{error}");
    run(&[&counting(9999, false), &wrong]).unwrap();
}

#[test]
fn threads_share_the_rounds() {
    let rounds = Rounds::new(1000, 50);
    let contender = Contender { engine: &counting(9999, false), task: TASK };
    let (together, per_second) = threaded(&contender, &list(), rounds, 3).unwrap();
    assert_eq!((together.addresses, together.checksum()), (1000, 1000));
    assert!(per_second > 0.0);
}
