// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/signature_option.h"

namespace sinter::tools {

void add_signature_option(Command& verb, LoadOptions& load) {
  const OptionsUnder heading(verb, "Session");
  verb.add_option("--require-signature KEY", load.require_signature,
                  "Public key of Ed25519 (a file, or base64): plans without a signature by it over "
                  "their whole file are refused (`sinter sign`)");
}

}  // namespace sinter::tools
