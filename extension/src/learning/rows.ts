/** Limits of one person's binned vector. */

/**
 * A score is a sum of int32 mantissas times values. With at most 2^22 - 1 units a person (the bias included) it stays
 * below 2^53 in absolute value, so that JavaScript's numbers hold it exactly.
 */
export const MAX_UNITS = 2 ** 22 - 1;
