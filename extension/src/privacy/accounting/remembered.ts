/** Remembered: what was computed for some values is not computed for them again. */

/** The same function, which keeps so many answers and forgets the oldest; `keyOf` tells what it was asked. */
export function remembered<Asked extends readonly unknown[], Answer>(
  most: number,
  keyOf: (...asked: Asked) => string,
  compute: (...asked: Asked) => Answer,
): (...asked: Asked) => Answer {
  const answers = new Map<string, Answer>();
  return (...asked) => {
    const key = keyOf(...asked);
    const known = answers.get(key);
    if (known !== undefined) return known;
    const answer = compute(...asked);
    answers.set(key, answer);
    if (answers.size > most) answers.delete(answers.keys().next().value!);
    return answer;
  };
}
