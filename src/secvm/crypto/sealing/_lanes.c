/* Capsules opened and sealed eight at a time: what secvm.crypto.sealing.hpke does with pyca, for X25519 / HKDF-SHA256 /
 * AES-128-GCM.
 *
 * secvm.crypto.sealing.lanes calls this through ctypes; secvm.runtime.lanes compiles it where there is a compiler, and tries it
 * against the readable code before anything rests on it. X25519 is done for eight capsules at once, a lane each, with
 * the CPU's multiplication of 52-bit numbers (AVX-512 IFMA); SHA-256 and AES-GCM are the CPU's own instructions. No
 * header but the compiler's and libc's is needed.
 *
 * Promises: no branch and no address depends on a secret; of a capsule whose tag is wrong nothing is written; every
 * array that held a key or a whole secret is wiped before the function returns (what the ladder passes by value, and
 * registers that a compiler spilled, are beyond what C can promise).
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 8, HEADER = 7, POINT = 32, TAG = 16, HASH = 32, BLOCK = 64 };
/* What became of a capsule. */
enum { OPENED = 0, LOW_ORDER = 1, WRONG_TAG = 2 };

static void wipe(void *memory, size_t size) {
    memset(memory, 0, size);
    __asm__ __volatile__("" : : "r"(memory) : "memory"); /* somebody might look: it is not left out */
}

/* ── X25519, eight at once ─────────────────────────────────────────────────────────────────────────────────────────
 *
 * A number modulo p = 2^255 - 19 is five limbs of 51 bits. The CPU multiplies the low 52 bits of two words, so a limb may
 * have one bit more, and not two. Every function below takes and returns **small** numbers: each limb < 2^51 + 2^15.
 */

typedef struct {
    __m512i limb[5];
} number;

#define EACH_LIMB _Pragma("GCC unroll 5") for (int i = 0; i < 5; i++)

static inline __m512i all(uint64_t word) { return _mm512_set1_epi64((long long)word); }

static inline __m512i times_19(__m512i a) {
    return _mm512_add_epi64(_mm512_add_epi64(a, _mm512_slli_epi64(a, 1)), _mm512_slli_epi64(a, 4));
}

/* Limbs < 2^61 become small ones: what is carried is < 2^10, and 19 times that < 2^15. All five at once: nothing that
 * comes in makes a carry run on, and nothing has to. */
static inline void carry(number *a) {
    __m512i over[5];
    EACH_LIMB {
        over[i] = _mm512_srli_epi64(a->limb[i], 51);
        a->limb[i] = _mm512_and_si512(a->limb[i], all((1ULL << 51) - 1));
    }
    a->limb[0] = _mm512_madd52lo_epu64(a->limb[0], over[4], all(19));
    for (int i = 1; i < 5; i++) a->limb[i] = _mm512_add_epi64(a->limb[i], over[i - 1]);
}

static inline number plus(const number *a, const number *b) {
    number sum;
    EACH_LIMB sum.limb[i] = _mm512_add_epi64(a->limb[i], b->limb[i]);
    carry(&sum);
    return sum;
}

/* a + 2p - b: no limb of 2p is less than 2^52 - 38, so none of the difference is below zero. */
static inline number minus(const number *a, const number *b) {
    number difference;
    EACH_LIMB {
        __m512i above = _mm512_add_epi64(a->limb[i], all((1ULL << 52) - (i ? 2 : 38)));
        difference.limb[i] = _mm512_sub_epi64(above, b->limb[i]);
    }
    carry(&difference);
    return difference;
}

/* A product is ten columns, the k-th of weight 2^51k. The CPU gives the upper half of a product of two limbs with weight
 * 2^52, so it counts twice in the column above: upper halves are summed and doubled first, lower halves added after.
 * Each column then is a sum of at most five numbers < 2^53 and five < 2^52, together < 15·2^52; and a limb is < 2^61
 * after 2^255 = 19 has been used. */
static inline number folded(const __m512i column[10]) {
    number product;
    EACH_LIMB product.limb[i] = _mm512_add_epi64(column[i], times_19(column[i + 5]));
    carry(&product);
    return product;
}

static inline void double_columns(__m512i column[10]) {
#pragma GCC unroll 10
    for (int k = 0; k < 10; k++) column[k] = _mm512_add_epi64(column[k], column[k]);
}

static inline number times(const number *a, const number *b) {
    __m512i column[10];
#pragma GCC unroll 10
    for (int k = 0; k < 10; k++) column[k] = _mm512_setzero_si512();
    EACH_LIMB {
#pragma GCC unroll 5
        for (int j = 0; j < 5; j++)
            column[i + j + 1] = _mm512_madd52hi_epu64(column[i + j + 1], a->limb[i], b->limb[j]);
    }
    double_columns(column);
    EACH_LIMB {
#pragma GCC unroll 5
        for (int j = 0; j < 5; j++) column[i + j] = _mm512_madd52lo_epu64(column[i + j], a->limb[i], b->limb[j]);
    }
    return folded(column);
}

/* As times(a, a): what stands twice in the sum is computed once. */
static inline number squared(const number *a) {
    __m512i column[10];
#pragma GCC unroll 10
    for (int k = 0; k < 10; k++) column[k] = _mm512_setzero_si512();
    EACH_LIMB {
#pragma GCC unroll 5
        for (int j = i + 1; j < 5; j++)
            column[i + j + 1] = _mm512_madd52hi_epu64(column[i + j + 1], a->limb[i], a->limb[j]);
    }
    double_columns(column);
    EACH_LIMB {
        column[2 * i + 1] = _mm512_madd52hi_epu64(column[2 * i + 1], a->limb[i], a->limb[i]);
#pragma GCC unroll 5
        for (int j = i + 1; j < 5; j++) column[i + j] = _mm512_madd52lo_epu64(column[i + j], a->limb[i], a->limb[j]);
    }
    double_columns(column);
    EACH_LIMB column[2 * i] = _mm512_madd52lo_epu64(column[2 * i], a->limb[i], a->limb[i]);
    return folded(column);
}

/* a + 121665·b */
static inline number plus_times_a24(const number *a, const number *b) {
    number sum;
    __m512i high[5];
    EACH_LIMB {
        sum.limb[i] = _mm512_madd52lo_epu64(a->limb[i], b->limb[i], all(121665));
        high[i] = _mm512_slli_epi64(_mm512_madd52hi_epu64(_mm512_setzero_si512(), b->limb[i], all(121665)), 1);
    }
    sum.limb[0] = _mm512_add_epi64(sum.limb[0], times_19(high[4]));
    for (int i = 1; i < 5; i++) sum.limb[i] = _mm512_add_epi64(sum.limb[i], high[i - 1]);
    carry(&sum);
    return sum;
}

static inline void swap_if(__mmask8 yes, number *a, number *b) {
    EACH_LIMB {
        __m512i left = a->limb[i];
        a->limb[i] = _mm512_mask_blend_epi64(yes, left, b->limb[i]);
        b->limb[i] = _mm512_mask_blend_epi64(yes, b->limb[i], left);
    }
}

static number squared_often(number a, int count) {
    while (count--) a = squared(&a);
    return a;
}

/* a^(p - 2), by the usual chain; 0 for 0. The names say which power of two, less one, is the exponent. */
static number inverse(const number *a) {
    number two = squared(a), eight = squared_often(two, 2), nine = times(&eight, a), eleven = times(&nine, &two);
    number t = squared(&eleven), p5 = times(&t, &nine), p10, p20, p40, p50, p100, p200;
    t = squared_often(p5, 5), p10 = times(&t, &p5);
    t = squared_often(p10, 10), p20 = times(&t, &p10);
    t = squared_often(p20, 20), p40 = times(&t, &p20);
    t = squared_often(p40, 10), p50 = times(&t, &p10);
    t = squared_often(p50, 50), p100 = times(&t, &p50);
    t = squared_often(p100, 100), p200 = times(&t, &p100);
    t = squared_often(p200, 50), t = times(&t, &p50);
    t = squared_often(t, 5);
    return times(&t, &eleven);
}

/* The one number below p that this is, for one lane. */
static void number_out(const uint64_t limb[5], uint8_t out[POINT]) {
    const uint64_t mask = (1ULL << 51) - 1;
    uint64_t t[5], words[4];
    memcpy(t, limb, sizeof t);
    for (int turn = 0; turn < 4; turn++) {
        /* Twice: limbs below 2^51, the number below 2^255. Then 19 more and a carry, so that p and what lies above it
         * begin anew at 19; and in the end 2^255 - 19 more, of which bit 255 falls off. */
        if (turn == 2) t[0] += 19;
        if (turn == 3)
            for (int i = 0; i < 5; i++) t[i] += mask - (i ? 0 : 18);
        for (int i = 0; i < 4; i++) t[i + 1] += t[i] >> 51, t[i] &= mask;
        if (turn < 3) t[0] += 19 * (t[4] >> 51);
        t[4] &= mask;
    }
    words[0] = t[0] | t[1] << 51;
    words[1] = t[1] >> 13 | t[2] << 38;
    words[2] = t[2] >> 26 | t[3] << 25;
    words[3] = t[3] >> 39 | t[4] << 12;
    memcpy(out, words, POINT);
    wipe(t, sizeof t);
    wipe(words, sizeof words);
}

/* A bit of each lane's private key, from bit 254 down: what the ladder looks at. */
typedef struct {
    uint8_t lanes[255];
} ladder_bits;

static void bits_of(const uint8_t *const private_keys[LANES], ladder_bits *bits) {
    uint8_t scalar[POINT];
    memset(bits, 0, sizeof *bits);
    for (int lane = 0; lane < LANES; lane++) {
        memcpy(scalar, private_keys[lane], POINT);
        scalar[0] &= 248;
        scalar[31] = (uint8_t)((scalar[31] & 127) | 64);
        for (int bit = 0; bit < 255; bit++)
            bits->lanes[254 - bit] |= (uint8_t)(((scalar[bit >> 3] >> (bit & 7)) & 1) << lane);
    }
    wipe(scalar, sizeof scalar);
}

/* RFC 7748 §5 for eight private keys and eight points; a point of low order gives zero. */
static void exchange(const ladder_bits *bits, const uint8_t *const points[LANES], uint8_t shared[LANES][POINT]) {
    uint64_t limbs[5][LANES] __attribute__((aligned(64)));
    const uint64_t mask = (1ULL << 51) - 1;
    number x1, x2, z2, x3, z3;
    uint8_t before = 0;
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t words[4];
        memcpy(words, points[lane], POINT);
        limbs[0][lane] = words[0] & mask;
        limbs[1][lane] = (words[0] >> 51 | words[1] << 13) & mask;
        limbs[2][lane] = (words[1] >> 38 | words[2] << 26) & mask;
        limbs[3][lane] = (words[2] >> 25 | words[3] << 39) & mask;
        limbs[4][lane] = (words[3] >> 12) & mask; /* without bit 255, as the RFC says */
    }
    EACH_LIMB {
        x1.limb[i] = x3.limb[i] = _mm512_load_si512(limbs[i]);
        z2.limb[i] = _mm512_setzero_si512();
        x2.limb[i] = z3.limb[i] = i ? _mm512_setzero_si512() : all(1);
    }
    for (int step = 0; step < 255; step++) {
        uint8_t now = bits->lanes[step];
        __mmask8 swap = (__mmask8)(now ^ before);
        number a, b, c, d, aa, bb, e, da, cb, t;
        before = now;
        swap_if(swap, &x2, &x3);
        swap_if(swap, &z2, &z3);
        a = plus(&x2, &z2), b = minus(&x2, &z2);
        c = plus(&x3, &z3), d = minus(&x3, &z3);
        aa = squared(&a), bb = squared(&b);
        e = minus(&aa, &bb);
        da = times(&d, &a), cb = times(&c, &b);
        t = plus(&da, &cb), x3 = squared(&t);
        t = minus(&da, &cb), t = squared(&t), z3 = times(&x1, &t);
        x2 = times(&aa, &bb);
        t = plus_times_a24(&aa, &e), z2 = times(&e, &t);
    }
    swap_if((__mmask8)before, &x2, &x3);
    swap_if((__mmask8)before, &z2, &z3);
    z2 = inverse(&z2);
    x2 = times(&x2, &z2);
    EACH_LIMB _mm512_store_si512(limbs[i], x2.limb[i]);
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t limb[5];
        EACH_LIMB limb[i] = limbs[i][lane];
        number_out(limb, shared[lane]);
        wipe(limb, sizeof limb);
    }
    wipe(limbs, sizeof limbs);
    wipe(&x2, sizeof x2), wipe(&z2, sizeof z2), wipe(&x3, sizeof x3), wipe(&z3, sizeof z3);
}

/* ── SHA-256 ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static const uint32_t ROUND[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* The eight words as the CPU wants them: a b e f and c d g h, the first in the highest place. */
typedef struct {
    __m128i abef, cdgh;
} sha_state;

static const uint32_t START[8] = {0x9b05688c, 0x510e527f, 0xbb67ae85, 0x6a09e667, /* f e b a */
                                  0x5be0cd19, 0x1f83d9ab, 0xa54ff53a, 0x3c6ef372}; /* h g d c */

static inline sha_state sha_start(void) {
    sha_state state;
    state.abef = _mm_loadu_si128((const __m128i *)START);
    state.cdgh = _mm_loadu_si128((const __m128i *)(START + 4));
    return state;
}

static inline __m128i big_words(__m128i word) {
    return _mm_shuffle_epi8(word, _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL));
}

static inline void sha_block(sha_state *state, const uint8_t *block) {
    /* SHA instructions have the old encoding: as long as the upper half of any register holds something, some CPUs take
     * a hundred cycles between them and the instructions beside them. */
    _mm256_zeroupper();
    __m128i abef = state->abef, cdgh = state->cdgh, w[4];
    for (int i = 0; i < 4; i++) w[i] = big_words(_mm_loadu_si128((const __m128i *)(block + 16 * i)));
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        __m128i sum = _mm_add_epi32(w[i & 3], _mm_load_si128((const __m128i *)(ROUND + 4 * i)));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        if (i < 12) {
            __m128i last = w[(i + 3) & 3];
            __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]),
                                         _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
            w[i & 3] = _mm_sha256msg2_epu32(next, last);
        }
    }
    state->abef = _mm_add_epi32(state->abef, abef);
    state->cdgh = _mm_add_epi32(state->cdgh, cdgh);
}

/* The rest of a message, of which `before` bytes (whole blocks) are in the state already. */
static inline void sha_end(sha_state state, size_t before, const uint8_t *rest, size_t size, uint8_t digest[HASH]) {
    uint8_t last[2 * BLOCK];
    uint64_t bits = __builtin_bswap64(8 * (uint64_t)(before + size));
    size_t used;
    for (; size >= BLOCK; rest += BLOCK, size -= BLOCK) sha_block(&state, rest);
    used = size < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    memset(last, 0, sizeof last);
    memcpy(last, rest, size);
    last[size] = 0x80;
    memcpy(last + used - 8, &bits, 8);
    for (size_t at = 0; at < used; at += BLOCK) sha_block(&state, last + at);
    wipe(last, sizeof last);
    /* f e b a, h g d c → a b c d, e f g h */
    __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b), hgdc = _mm_shuffle_epi32(state.cdgh, 0x1b);
    _mm_storeu_si128((__m128i *)digest, big_words(_mm_unpacklo_epi64(feba, hgdc)));
    _mm_storeu_si128((__m128i *)(digest + 16), big_words(_mm_unpackhi_epi64(feba, hgdc)));
}

/* ── HMAC ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    sha_state inner, outer;
} hmac_key;

static inline void hmac_begin(hmac_key *key, const uint8_t secret[HASH]) {
    uint8_t block[BLOCK];
    for (int i = 0; i < BLOCK; i++) block[i] = (uint8_t)((i < HASH ? secret[i] : 0) ^ 0x36);
    key->inner = sha_start();
    sha_block(&key->inner, block);
    for (int i = 0; i < BLOCK; i++) block[i] ^= 0x36 ^ 0x5c;
    key->outer = sha_start();
    sha_block(&key->outer, block);
    wipe(block, sizeof block);
}

static inline void hmac_end(const hmac_key *key, const uint8_t *message, size_t size, uint8_t digest[HASH]) {
    uint8_t inner[HASH];
    sha_end(key->inner, BLOCK, message, size, inner);
    sha_end(key->outer, BLOCK, inner, HASH, digest);
    wipe(inner, sizeof inner);
}

/* ── AES-128-GCM, without additional data ────────────────────────────────────────────────────────────────────────── */

typedef struct {
    __m128i key[11];
} aes_keys;

static inline __m128i next_key(__m128i key, __m128i assist) {
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, _mm_shuffle_epi32(assist, 0xff));
}

static inline void aes_begin(aes_keys *keys, const uint8_t secret[16]) {
    __m128i *k = keys->key;
    k[0] = _mm_loadu_si128((const __m128i *)secret);
    k[1] = next_key(k[0], _mm_aeskeygenassist_si128(k[0], 0x01));
    k[2] = next_key(k[1], _mm_aeskeygenassist_si128(k[1], 0x02));
    k[3] = next_key(k[2], _mm_aeskeygenassist_si128(k[2], 0x04));
    k[4] = next_key(k[3], _mm_aeskeygenassist_si128(k[3], 0x08));
    k[5] = next_key(k[4], _mm_aeskeygenassist_si128(k[4], 0x10));
    k[6] = next_key(k[5], _mm_aeskeygenassist_si128(k[5], 0x20));
    k[7] = next_key(k[6], _mm_aeskeygenassist_si128(k[6], 0x40));
    k[8] = next_key(k[7], _mm_aeskeygenassist_si128(k[7], 0x80));
    k[9] = next_key(k[8], _mm_aeskeygenassist_si128(k[8], 0x1b));
    k[10] = next_key(k[9], _mm_aeskeygenassist_si128(k[9], 0x36));
}

static inline __m128i aes_block(const aes_keys *keys, __m128i block) {
    block = _mm_xor_si128(block, keys->key[0]);
    for (int i = 1; i < 10; i++) block = _mm_aesenc_si128(block, keys->key[i]);
    return _mm_aesenclast_si128(block, keys->key[10]);
}

static inline __m128i turned(__m128i block) {
    return _mm_shuffle_epi8(block, _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL));
}

/* a·b in GCM's field, both with their bytes turned: bits lie the other way round, hence the shift by one. */
static inline __m128i gf_times(__m128i a, __m128i b) {
    __m128i low = _mm_clmulepi64_si128(a, b, 0x00), high = _mm_clmulepi64_si128(a, b, 0x11);
    __m128i middle = _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x10), _mm_clmulepi64_si128(a, b, 0x01));
    __m128i carry, over, fold;
    low = _mm_xor_si128(low, _mm_slli_si128(middle, 8));
    high = _mm_xor_si128(high, _mm_srli_si128(middle, 8));
    carry = _mm_srli_epi64(low, 63);
    over = _mm_srli_epi64(high, 63);
    low = _mm_or_si128(_mm_slli_epi64(low, 1), _mm_slli_si128(carry, 8));
    high = _mm_or_si128(_mm_or_si128(_mm_slli_epi64(high, 1), _mm_slli_si128(over, 8)), _mm_srli_si128(carry, 8));
    /* Modulo x^128 + x^7 + x^2 + x + 1. */
    fold = _mm_xor_si128(_mm_xor_si128(_mm_slli_epi64(low, 63), _mm_slli_epi64(low, 62)), _mm_slli_epi64(low, 57));
    low = _mm_xor_si128(low, _mm_slli_si128(fold, 8));
    over = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(low, 1), _mm_srli_epi64(low, 2)), _mm_srli_epi64(low, 7));
    over = _mm_xor_si128(over, _mm_srli_si128(fold, 8));
    return _mm_xor_si128(high, _mm_xor_si128(low, over));
}

static inline __m128i some_bytes(const uint8_t *data, size_t size) {
    uint8_t block[16] = {0};
    memcpy(block, data, size);
    return _mm_loadu_si128((const __m128i *)block);
}

/* The tag of a ciphertext, without additional data. */
static inline __m128i gcm_tag(const aes_keys *keys, __m128i first, const uint8_t *sealed, size_t size) {
    __m128i factor = turned(aes_block(keys, _mm_setzero_si128())), sum = _mm_setzero_si128();
    size_t at;
    for (at = 0; at + 16 <= size; at += 16)
        sum = gf_times(_mm_xor_si128(sum, turned(_mm_loadu_si128((const __m128i *)(sealed + at)))), factor);
    if (at < size) sum = gf_times(_mm_xor_si128(sum, turned(some_bytes(sealed + at, size - at))), factor);
    sum = gf_times(_mm_xor_si128(sum, _mm_set_epi64x(0, (long long)(8 * (uint64_t)size))), factor);
    return _mm_xor_si128(turned(sum), aes_block(keys, first));
}

/* From clear to sealed bytes, or back. */
static inline void gcm_stream(const aes_keys *keys, __m128i first, const uint8_t *in, size_t size, uint8_t *out) {
    for (size_t at = 0; at < size; at += 16) {
        uint32_t number = (uint32_t)(2 + at / 16);
        __m128i stream = aes_block(keys, _mm_insert_epi32(first, (int)__builtin_bswap32(number), 3));
        if (at + 16 <= size) {
            __m128i block = _mm_loadu_si128((const __m128i *)(in + at));
            _mm_storeu_si128((__m128i *)(out + at), _mm_xor_si128(block, stream));
        } else {
            uint8_t block[16];
            _mm_storeu_si128((__m128i *)block, _mm_xor_si128(some_bytes(in + at, size - at), stream));
            memcpy(out + at, block, size - at);
            wipe(block, sizeof block);
        }
    }
}

static inline __m128i gcm_first(const uint8_t nonce[12]) {
    uint8_t counter[16];
    memcpy(counter, nonce, 12);
    memcpy(counter + 12, "\0\0\0\1", 4);
    return _mm_loadu_si128((const __m128i *)counter);
}

/* `size` bytes become as many and a tag. */
static void gcm_seal(const uint8_t key[16], const uint8_t nonce[12], const uint8_t *clear, size_t size, uint8_t *out) {
    aes_keys keys;
    __m128i first = gcm_first(nonce);
    aes_begin(&keys, key);
    gcm_stream(&keys, first, clear, size, out);
    _mm_storeu_si128((__m128i *)(out + size), gcm_tag(&keys, first, out, size));
    wipe(&keys, sizeof keys);
}

/* The tag first; nothing is written as long as it is not right. */
static int gcm_open(const uint8_t key[16], const uint8_t nonce[12], const uint8_t *sealed, size_t size, uint8_t *out) {
    aes_keys keys;
    __m128i first = gcm_first(nonce), differs;
    aes_begin(&keys, key);
    differs = gcm_tag(&keys, first, sealed, size);
    differs = _mm_xor_si128(differs, _mm_loadu_si128((const __m128i *)(sealed + size)));
    if (!_mm_testz_si128(differs, differs)) {
        wipe(&keys, sizeof keys);
        return WRONG_TAG;
    }
    gcm_stream(&keys, first, sealed, size, out);
    wipe(&keys, sizeof keys);
    return OPENED;
}

/* ── capsules ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What all capsules of one gateway key have in common; secvm.crypto.sealing.lanes fills it in, with the same layout. */
typedef struct {
    uint8_t private_key[32];
    uint8_t public_key[32];
    /* What HKDF is given before the shared point (eae_prk), before enc (shared_secret), for the secret, the key and the
     * nonce: bytes and how many. The texts of RFC 9180 are written by secvm.crypto.sealing.kdf alone. */
    uint8_t extract[64], expand[64], secret[64], key[128], nonce[128];
    uint32_t extract_size, expand_size, secret_size, key_size, nonce_size;
} lanes_key;

typedef struct {
    uint8_t shared[LANES][POINT];
    uint8_t message[BLOCK * 3], prk[HASH], secret[HASH], key[HASH], nonce[HASH];
    hmac_key mac;
} scratch;

/* RFC 9180 §4.1 and §5.1 for one shared point: the cipher's key and nonce are then in `s`. False where the point is
 * zero. `kem_secret`, where wanted, is what answers hang on. */
static int keys_of(const lanes_key *key, const hmac_key *no_salt, const uint8_t enc[POINT], const uint8_t shared[POINT],
                   scratch *s, uint8_t *kem_secret) {
    uint8_t any = 0;
    for (int i = 0; i < POINT; i++) any |= shared[i];
    if (!any) return 0;
    memcpy(s->message, key->extract, key->extract_size);
    memcpy(s->message + key->extract_size, shared, POINT);
    hmac_end(no_salt, s->message, key->extract_size + POINT, s->prk);
    memcpy(s->message, key->expand, key->expand_size);
    memcpy(s->message + key->expand_size, enc, POINT);
    memcpy(s->message + key->expand_size + POINT, key->public_key, POINT);
    s->message[key->expand_size + 2 * POINT] = 1;
    hmac_begin(&s->mac, s->prk);
    hmac_end(&s->mac, s->message, key->expand_size + 2 * POINT + 1, s->secret);
    if (kem_secret) memcpy(kem_secret, s->secret, HASH);
    hmac_begin(&s->mac, s->secret);
    hmac_end(&s->mac, key->secret, key->secret_size, s->prk);
    hmac_begin(&s->mac, s->prk);
    hmac_end(&s->mac, key->key, key->key_size, s->key);
    hmac_end(&s->mac, key->nonce, key->nonce_size, s->nonce);
    return 1;
}

/* `sealed`: enc, ciphertext and tag, `size` bytes in all. */
static int open_one(const lanes_key *key, const hmac_key *no_salt, const uint8_t *sealed, size_t size,
                    const uint8_t shared[POINT], scratch *s, uint8_t *out, uint8_t *kem_secret) {
    if (!keys_of(key, no_salt, sealed, shared, s, kem_secret)) return LOW_ORDER;
    return gcm_open(s->key, s->nonce, sealed + POINT, size - POINT - TAG, out);
}

static void begin(const lanes_key *key, hmac_key *no_salt, ladder_bits *bits) {
    static const uint8_t zeros[HASH];
    const uint8_t *private_keys[LANES];
    for (int i = 0; i < LANES; i++) private_keys[i] = key->private_key;
    hmac_begin(no_salt, zeros);
    bits_of(private_keys, bits);
}

/* `capsules`: n of them side by side, `sizes` long, all with the header of this key and long enough to hold a tag.
 * What was in a capsule is written to `out` where the capsule began in `capsules`, and its fate to `fates`;
 * `kem_secrets` (32 bytes each) may be missing. */
__attribute__((visibility("default"))) void secvm_lanes_open(const lanes_key *key, size_t n, const uint8_t *capsules,
                                                             const uint32_t *sizes, uint8_t *out, uint8_t *fates,
                                                             uint8_t *kem_secrets) {
    scratch s;
    hmac_key no_salt;
    ladder_bits bits;
    const uint8_t *points[LANES];
    size_t at = 0, offsets[LANES];
    begin(key, &no_salt, &bits);
    for (size_t start = 0; start < n; start += LANES) {
        size_t count = n - start < LANES ? n - start : LANES;
        for (size_t i = 0; i < LANES; i++) {
            if (i < count) {
                offsets[i] = at;
                at += sizes[start + i];
            }
            /* Lanes without a capsule do the first one's work again, and nobody looks. */
            points[i] = capsules + offsets[i < count ? i : 0] + HEADER;
        }
        exchange(&bits, points, s.shared);
        for (size_t i = 0; i < count; i++) {
            const uint8_t *capsule = capsules + offsets[i] + HEADER;
            size_t size = sizes[start + i] - HEADER;
            fates[start + i] = (uint8_t)open_one(key, &no_salt, capsule, size, s.shared[i], &s, out + offsets[i],
                                                 kem_secrets ? kem_secrets + HASH * (start + i) : NULL);
        }
    }
    wipe(&s, sizeof s);
    wipe(&bits, sizeof bits);
}

/* Capsules without a header, all of one `size` of at least enc and tag. Contents are written side by side; where a
 * capsule does not open, `out` stays as it was. */
__attribute__((visibility("default"))) void secvm_lanes_open_fixed(const lanes_key *key, size_t n,
                                                                   const uint8_t *capsules, size_t size, uint8_t *out,
                                                                   uint8_t *fates) {
    scratch s;
    hmac_key no_salt;
    ladder_bits bits;
    const uint8_t *points[LANES];
    begin(key, &no_salt, &bits);
    for (size_t start = 0; start < n; start += LANES) {
        size_t count = n - start < LANES ? n - start : LANES;
        for (size_t i = 0; i < LANES; i++) points[i] = capsules + size * (start + (i < count ? i : 0));
        exchange(&bits, points, s.shared);
        for (size_t i = 0; i < count; i++)
            fates[start + i] = (uint8_t)open_one(key, &no_salt, points[i], size, s.shared[i], &s,
                                                 out + (size - POINT - TAG) * (start + i), NULL);
    }
    wipe(&s, sizeof s);
    wipe(&bits, sizeof bits);
}

/* `contents`: n of them side by side, `size` bytes each; `ephemerals`: a private key of 32 bytes for each. Capsules
 * (enc, ciphertext, tag) are written side by side. `key` is the recipient's, whose public key is no point of low order;
 * its private key is not looked at. */
__attribute__((visibility("default"))) void secvm_lanes_seal(const lanes_key *key, size_t n, const uint8_t *ephemerals,
                                                             const uint8_t *contents, size_t size, uint8_t *out) {
    static const uint8_t zeros[HASH], base[POINT] = {9};
    scratch s;
    hmac_key no_salt;
    ladder_bits bits;
    uint8_t encs[LANES][POINT];
    const uint8_t *secrets[LANES], *bases[LANES], *recipients[LANES];
    const size_t whole = POINT + size + TAG;
    hmac_begin(&no_salt, zeros);
    for (int i = 0; i < LANES; i++) bases[i] = base, recipients[i] = key->public_key;
    for (size_t start = 0; start < n; start += LANES) {
        size_t count = n - start < LANES ? n - start : LANES;
        for (size_t i = 0; i < LANES; i++) secrets[i] = ephemerals + POINT * (start + (i < count ? i : 0));
        bits_of(secrets, &bits);
        exchange(&bits, bases, encs);
        exchange(&bits, recipients, s.shared);
        for (size_t i = 0; i < count; i++) {
            uint8_t *capsule = out + whole * (start + i);
            keys_of(key, &no_salt, encs[i], s.shared[i], &s, NULL);
            memcpy(capsule, encs[i], POINT);
            gcm_seal(s.key, s.nonce, contents + size * (start + i), size, capsule + POINT);
        }
    }
    wipe(&s, sizeof s);
    wipe(&bits, sizeof bits);
}
