// Talks with the program that shows this page: one address below the page's own, and nobody else.
// @ts-check

/** A refusal, in one sentence for the person. */
export class Refusal extends Error {
  /** @param {string} sentence @param {string | null} next @param {number} status */
  constructor(sentence, next, status) {
    super(sentence);
    this.next = next;
    this.status = status;
  }
}

/** @returns {Promise<any>} all that the page shows */
export async function getState() {
  return (await answered(await fetch("api/state", { cache: "no-store" }))).json();
}

/**
 * Let the program do something. No form can send this: it is JSON, with a header of our own.
 * @param {string} action @param {object} said @returns {Promise<Response>}
 */
export async function act(action, said) {
  return answered(await fetch(`api/${action}`, {
    method: "POST",
    cache: "no-store",
    headers: { "Content-Type": "application/json", "Secvm-Page": "person" },
    body: JSON.stringify(said),
  }));
}

/** @param {Response} response */
async function answered(response) {
  if (response.ok) return response;
  /** @type {any} */
  let told = {};
  try {
    told = await response.json();
  } catch {
    // Not one of our own answers; the sentence below has to do.
  }
  throw new Refusal(told.detail ?? "That did not work.", told.next ?? null, response.status);
}
