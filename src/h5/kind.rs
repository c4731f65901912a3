//! Numbers as machines have them. A file may describe others, such as 32 bits of which 8224 count; HDF5's library takes its word for it, and
//! writes over its own stack when it converts them.
#![allow(unsafe_code)]

use hdf5::Datatype;
use hdf5::sync::sync;
use hdf5_sys::h5t::{
    H5T_class_t, H5Tget_class, H5Tget_fields, H5Tget_offset, H5Tget_precision, H5Tget_size,
};

/// Where sign, exponent and fraction are in floats of 2, 4 and 8 bytes: the place of the sign, and place and length of the others.
const FLOATS: [(usize, [usize; 5]); 3] = [
    (2, [15, 10, 5, 0, 10]),
    (4, [31, 23, 8, 0, 23]),
    (8, [63, 52, 11, 0, 52]),
];

/// Whether it is an integer of 1, 2, 4 or 8 bytes or an IEEE float, in any order of bytes.
pub(super) fn is_plain(kind: &Datatype) -> bool {
    let id = kind.id();
    sync(|| {
        // SAFETY: the identifier is that of a type as long as `kind` lives, the lock of the library is held, and each field has its place.
        unsafe {
            let size = H5Tget_size(id);
            let whole = H5Tget_precision(id) == 8 * size && H5Tget_offset(id) == 0;
            match H5Tget_class(id) {
                H5T_class_t::H5T_INTEGER => whole && [1, 2, 4, 8].contains(&size),
                H5T_class_t::H5T_FLOAT => {
                    let [
                        mut sign,
                        mut exponent,
                        mut exponents,
                        mut fraction,
                        mut fractions,
                    ] = [0; 5];
                    let known = H5Tget_fields(
                        id,
                        &raw mut sign,
                        &raw mut exponent,
                        &raw mut exponents,
                        &raw mut fraction,
                        &raw mut fractions,
                    );
                    let found = [sign, exponent, exponents, fraction, fractions];
                    whole && known >= 0 && FLOATS.contains(&(size, found))
                }
                _ => false,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdf5::types::VarLenUnicode;

    #[test]
    fn what_machines_have_is_plain() {
        let plain = [
            Datatype::from_type::<u8>(),
            Datatype::from_type::<i16>(),
            Datatype::from_type::<u32>(),
            Datatype::from_type::<u64>(),
            Datatype::from_type::<f32>(),
            Datatype::from_type::<f64>(),
        ];
        assert!(plain.iter().all(|kind| is_plain(kind.as_ref().unwrap())));
        let others = [
            Datatype::from_type::<bool>(),
            Datatype::from_type::<VarLenUnicode>(),
        ];
        assert!(!others.iter().any(|kind| is_plain(kind.as_ref().unwrap())));
    }
}
