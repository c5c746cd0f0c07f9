//! A prefetch is a hint: answers are the same with and without it.

use whered_geo::{Cell, Points};

#[test]
fn any_members_and_cells_may_be_warmed_in_any_collection() {
    for count in [0u64, 1, 7, 300, 70_000] {
        let mut points = Points::new();
        for id in 0..count {
            let cell =
                Cell::from_bits(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12).expect("a cell");
            points.insert(id.to_string().as_bytes(), cell);
        }
        points.insert(&[b'x'; 3000], Cell::MAX);
        let names: Vec<String> = (0..100).map(|id| (id * 1000).to_string()).collect();
        let mut members: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        members.extend([&[b'x'; 3000][..], &b""[..], &b"nobody"[..]]);
        let targets: Vec<(&[u8], Cell)> = members
            .iter()
            .enumerate()
            .map(|(index, &member)| (member, [Cell::MIN, Cell::MAX][index % 2]))
            .collect();
        points.prefetch_points(&targets);
        assert_eq!(points.len() as u64, count + 1);
        let mut found = vec![None];
        points.prefetch_members(&members);
        points.cells_batch(&members, &mut found);
        let alone: Vec<_> = members.iter().map(|member| points.cell(member)).collect();
        assert_eq!(found[1..], alone);
    }
}
