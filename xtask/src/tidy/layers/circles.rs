//! Circles of arrows: sets of files each of which reaches all others of its set.
//!
//! Tarjan's algorithm for strongly connected components, recursive: a crate has hundreds of files.

use std::collections::BTreeSet;

use super::arrows::Arrows;

/// The circles of two files or more, the largest first, each sorted.
pub(super) fn circles(file_count: usize, arrows: &Arrows) -> Vec<Vec<usize>> {
    let mut targets = vec![BTreeSet::new(); file_count];
    for (from, to) in arrows.keys() {
        targets[*from].insert(*to);
    }
    let mut search = Search {
        targets: &targets,
        order: vec![None; file_count],
        lowest: vec![0; file_count],
        stack: Vec::new(),
        is_stacked: vec![false; file_count],
        count: 0,
        found: Vec::new(),
    };
    for file in 0..file_count {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    let mut found = search.found;
    found.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    found
}

struct Search<'a> {
    targets: &'a [BTreeSet<usize>],
    order: Vec<Option<usize>>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    is_stacked: Vec<bool>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) {
        let order = self.count;
        self.count += 1;
        self.order[file] = Some(order);
        self.lowest[file] = order;
        self.stack.push(file);
        self.is_stacked[file] = true;
        for target in &self.targets[file] {
            match self.order[*target] {
                None => {
                    self.visit(*target);
                    self.lowest[file] = self.lowest[file].min(self.lowest[*target]);
                }
                Some(other) if self.is_stacked[*target] => {
                    self.lowest[file] = self.lowest[file].min(other);
                }
                Some(_) => {}
            }
        }
        if self.lowest[file] != order {
            return;
        }
        let mut circle = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.is_stacked[member] = false;
            circle.push(member);
            if member == file {
                break;
            }
        }
        if circle.len() > 1 {
            circle.sort_unstable();
            self.found.push(circle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
        circles(8, &pairs.iter().map(|pair| (*pair, 1)).collect())
    }

    #[test]
    fn a_chain_is_no_circle() {
        assert!(of(&[(0, 1), (1, 2), (0, 2), (2, 3)]).is_empty());
    }

    #[test]
    fn circles_that_share_a_file_are_one_and_others_are_apart() {
        let found = of(&[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (4, 5), (5, 4), (3, 4)]);
        assert_eq!(found, [vec![0, 1, 2], vec![4, 5]]);
    }
}
