/** Sentences that only a browser says. The page has them in German too (`pages/texts.de.json`). */

export const HERE: { readonly [key: string]: string } = {
  // Why it takes no part in an experiment: the rest of a sentence.
  "refused.plain":
    "it sends packages one by one and has no formal guarantee, and this extension takes part only in experiments" +
    " that have one",
  "refused.words": "it counts the words of a list, which this extension does not have",
  "refused.unreachable": "its relay {host} has no https address, and a browser reaches no other",
  "refused.source": "it looks at '{source}', which a browser does not have",
  "refused.test": "it is marked as a test, and tests are not for people's own data",
  "refused.only-tests": "this extension was set up for tests, and this experiment is none",
  "refused.not-allowed": "this browser does not allow any more what you allowed when you joined",
  // What is wrong just now.
  "trouble.permission":
    "This browser does not allow the extension what you once allowed: to read your history, and to reach the relays." +
    " Your device sends nothing until you allow it again, or leave.",
  "trouble.unanswered":
    "Your device has asked {n:,} times in a row, and nobody answered as they should. It sends nothing, and asks again.",
  "trouble.full": "The browser's storage is full, so nothing was sent.",
  "trouble.storage": "The browser's storage does not work ({name}), so nothing was sent.",
  "trouble.unknown": "Something went wrong that should not have. Nothing was lost; your device tries again by itself.",
};
