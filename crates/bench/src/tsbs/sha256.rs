//! SHA-256, for the tests that compare generated data with that of TSBS.

/// The digest of everything given so far.
pub(crate) struct Sha256 {
    state: [u32; 8],
    pending: Vec<u8>,
    length: u64,
}

impl Sha256 {
    pub(crate) fn new() -> Sha256 {
        let state = fractions(8, |prime| prime.sqrt());
        Sha256 { state: std::array::from_fn(|i| state[i]), pending: Vec::new(), length: 0 }
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let factors = factors();
        if !self.pending.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(64 - self.pending.len()));
            self.pending.extend_from_slice(first);
            bytes = rest;
            if self.pending.len() < 64 {
                return;
            }
            let pending = std::mem::take(&mut self.pending);
            self.compress(&factors, &pending);
        }
        let mut pieces = bytes.chunks_exact(64);
        for piece in &mut pieces {
            self.compress(&factors, piece);
        }
        self.pending = pieces.remainder().to_vec();
    }

    pub(crate) fn hex(mut self) -> String {
        let bits = self.length * 8;
        let mut padding = vec![0x80];
        padding.resize(1 + (119 - self.pending.len()) % 64, 0);
        padding.extend(bits.to_be_bytes());
        self.add(&padding);
        assert!(self.pending.is_empty(), "padding fills the last piece");
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    fn compress(&mut self, factors: &[u32; 64], piece: &[u8]) {
        let mut w = [0_u32; 64];
        for (word, bytes) in w.iter_mut().zip(piece.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().unwrap());
        }
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (factor, word) in factors.iter().zip(w) {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let sum = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(*factor);
            let first = sum.wrapping_add(word);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (state, word) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = state.wrapping_add(word);
        }
    }
}

pub(crate) fn hex_sha256(bytes: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.add(bytes);
    digest.hex()
}

fn factors() -> [u32; 64] {
    static FACTORS: std::sync::OnceLock<[u32; 64]> = std::sync::OnceLock::new();
    *FACTORS.get_or_init(|| {
        let factors = fractions(64, |prime| prime.cbrt());
        std::array::from_fn(|i| factors[i])
    })
}

/// Returns the first 32 bits of the fractions of roots of the first primes.
fn fractions(count: usize, root: fn(f64) -> f64) -> Vec<u32> {
    let primes = (2_u32..).filter(|&n| (2..n).all(|divisor| n % divisor != 0));
    let bits = primes.take(count).map(|prime| root(f64::from(prime)).fract() * 4_294_967_296.0);
    bits.map(|bits| format!("{}", bits.floor()).parse().unwrap()).collect()
}

#[test]
fn digests_are_those_of_the_standard() {
    for (text, expected) in [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ] {
        assert_eq!(hex_sha256(text.as_bytes()), expected, "{text}");
    }
}
