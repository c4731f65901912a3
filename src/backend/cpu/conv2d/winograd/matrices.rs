//! The small transforms of F(O×O, K×K), on as many tiles or kernels at a time as a vector has lanes.
//!
//! A convolution is a product of polynomials, which is found from its values at as many points as it has coefficients:
//! E = O + K − 1, one of them at infinity. The others are zero and pairs ±p.

use super::lanes::Lanes;

/// The points but infinity, in the order in which they are used: small, so that their powers are of one size.
const POINTS: [f64; 7] = [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5];

/// The matrices of F(O×O, K×K), with a row for each of the E points.
pub(super) struct Scheme<const E: usize, const O: usize, const K: usize>;

impl<const E: usize, const O: usize, const K: usize> Scheme<E, O, K> {
    /// Of output tiles: powers of the points.
    pub(super) const A: [[f32; O]; E] = powers(false);

    /// Of kernels: powers of the points, divided by the products of their distances to the others.
    pub(super) const G: [[f32; K]; E] = powers(true);

    /// Of input tiles: the polynomials that vanish at all other points.
    pub(super) const B: [[f32; E]; E] = polynomials();
}

const fn powers<const E: usize, const N: usize>(divide: bool) -> [[f32; N]; E] {
    let mut rows = [[0.0; N]; E];
    rows[E - 1][N - 1] = 1.0;
    let mut i = 0;
    while i + 1 < E {
        let mut value = 1.0;
        let mut j = 0;
        while divide && j + 1 < E {
            if i != j {
                value /= POINTS[i] - POINTS[j];
            }
            j += 1;
        }
        let mut power = 0;
        while power < N {
            rows[i][power] = value as f32;
            value *= POINTS[i];
            power += 1;
        }
        i += 1;
    }
    rows
}

const fn polynomials<const E: usize>() -> [[f32; E]; E] {
    let mut rows = [[0.0; E]; E];
    let mut i = 0;
    while i < E {
        rows[i][0] = 1.0;
        let mut j = 0;
        while j + 1 < E {
            // Times x − point, the highest power first.
            let mut power = E - 1;
            while i != j && power > 0 {
                rows[i][power] = rows[i][power - 1] - POINTS[j] as f32 * rows[i][power];
                power -= 1;
            }
            if i != j {
                rows[i][0] *= -POINTS[j] as f32;
            }
            j += 1;
        }
        i += 1;
    }
    rows
}

/// Column `j` of a matrix of vectors.
#[inline(always)]
pub(super) fn column<L: Lanes, const R: usize, const S: usize>(
    m: &[[L; S]; R],
    j: usize,
) -> [L; R] {
    let mut column = [m[0][j]; R];
    for (value, row) in column.iter_mut().zip(m) {
        *value = row[j];
    }
    column
}

/// `l·d` for each lane. Inlined where `l` is constant, its zeros and ones cost nothing. The rows of a pair of points
/// differ in the sign of odd powers only: even and odd ones are added up once.
#[inline(always)]
pub(super) fn to_points<L: Lanes, const E: usize, const S: usize>(
    set: L::Set,
    l: &[[f32; S]; E],
    d: &[L; S],
) -> [L; E] {
    let nothing = L::splat(set, NOTHING);
    let mut values = [nothing; E];
    for i in [0, E - 1] {
        for (l, d) in l[i].iter().zip(d) {
            add(set, &mut values[i], *l, d);
        }
    }
    for i in (1..E - 1).step_by(2) {
        let (mut even, mut odd) = (nothing, nothing);
        for j in 0..S {
            let sum = if j % 2 == 0 { &mut even } else { &mut odd };
            add(set, sum, l[i][j], &d[j]);
        }
        values[i] = even;
        values[i + 1] = even;
        add(set, &mut values[i], 1.0, &odd);
        add(set, &mut values[i + 1], -1.0, &odd);
    }
    values
}

/// `lᵀ·m`, with the same saving.
#[inline(always)]
pub(super) fn from_points<L: Lanes, const E: usize, const S: usize>(
    set: L::Set,
    l: &[[f32; S]; E],
    m: &[L; E],
) -> [L; S] {
    let mut values = [L::splat(set, NOTHING); S];
    for (j, value) in values.iter_mut().enumerate() {
        add(set, value, l[0][j], &m[0]);
    }
    for i in (1..E - 1).step_by(2) {
        let (mut even, mut odd) = (m[i], m[i]);
        add(set, &mut even, 1.0, &m[i + 1]);
        add(set, &mut odd, -1.0, &m[i + 1]);
        for (j, value) in values.iter_mut().enumerate() {
            add(set, value, l[i][j], if j % 2 == 0 { &even } else { &odd });
        }
    }
    for (j, value) in values.iter_mut().enumerate() {
        add(set, value, l[E - 1][j], &m[E - 1]);
    }
    values
}

/// Where sums start: to add to −0 is to copy, while 0 + −0 has to be computed.
pub(super) const NOTHING: f32 = -0.0;

/// `to += factor · from`.
#[inline(always)]
fn add<L: Lanes>(set: L::Set, to: &mut L, factor: f32, from: &L) {
    if factor != 0.0 {
        *to = from.times_plus(set, factor, *to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    /// Checks one dimension: `y = Aᵀ[(G·k) ⊙ (B·d)]` with all tiles and kernels of a single one.
    fn check<const E: usize, const O: usize, const K: usize>() {
        for (place, tap) in (0..E * K).map(|i| (i / K, i % K)) {
            for out in 0..O {
                let point = |e: usize| {
                    let (a, g) = (Scheme::<E, O, K>::A[e][out], Scheme::<E, O, K>::G[e][tap]);
                    f64::from(a) * f64::from(g) * f64::from(Scheme::<E, O, K>::B[e][place])
                };
                let expected = if out + tap == place { 1.0 } else { 0.0 };
                let sum: f64 = (0..E).map(point).sum();
                assert!((sum - expected).abs() < 1e-6, "{place} {tap} {out}: {sum}");
            }
        }
    }

    #[test]
    fn points_give_convolutions() {
        check::<6, 4, 3>();
        check::<6, 2, 5>();
        check::<8, 4, 5>();
    }

    #[test]
    fn points_give_the_published_matrix_of_four_pixels_and_three_taps() {
        let b = [
            [4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
            [0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
            [0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
            [0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
            [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
            [0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
        ];
        assert_eq!(Scheme::<6, 4, 3>::B, b);
    }

    #[test]
    fn pairs_of_points_save_half_the_sums_and_change_nothing() {
        let d: [[f32; 8]; 8] =
            std::array::from_fn(|i| std::array::from_fn(|lane| ((i * 5 + lane * 3) % 7) as f32));
        let l = Scheme::<8, 4, 5>::B;
        let (to, from) = (
            to_points(Isa::Portable, &l, &d),
            from_points(Isa::Portable, &l, &d),
        );
        for (i, lane) in (0..64).map(|at| (at / 8, at % 8)) {
            let there: f32 = (0..8).map(|j| l[i][j] * d[j][lane]).sum();
            let back: f32 = (0..8).map(|j| l[j][i] * d[j][lane]).sum();
            // Small dyadic numbers: no sum is rounded.
            assert_eq!((to[i][lane], from[i][lane]), (there, back));
        }
    }
}
