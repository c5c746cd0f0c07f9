// The dialog that asks for the token of `[http]`.

import { requests, token } from "./api.js";
import { byId } from "./dom.js";

/** Opens on a click and whenever a request is refused; calls `changed` after a new token. */
export function startToken(changed) {
  const dialog = byId("token-dialog");
  const input = byId("token-input");
  const error = byId("token-error");
  let wasTried = false;

  const open = () => {
    if (dialog.open) return;
    error.textContent = wasTried ? "The server refused this token." : "";
    input.value = "";
    dialog.showModal();
    input.focus();
  };
  requests.addEventListener("token-needed", () => {
    wasTried ||= token.get() !== null;
    open();
  });
  byId("token").addEventListener("click", () => {
    wasTried = false;
    open();
  });
  byId("token-cancel").addEventListener("click", () => dialog.close());
  byId("token-forget").addEventListener("click", () => {
    token.forget();
    dialog.close();
    changed();
  });
  byId("token-form").addEventListener("submit", (event) => {
    const value = input.value.trim();
    // What a header cannot carry is no token.
    if (!/^[\x21-\x7e]+$/.test(value)) {
      event.preventDefault();
      error.textContent = "A token has visible ASCII characters without spaces.";
      return;
    }
    token.set(value);
    wasTried = true;
    changed();
  });
}
