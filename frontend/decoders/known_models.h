// SPDX-License-Identifier: Apache-2.0
// Which models are known, of all kinds.
#pragma once

#include "frontend/decoders/config/architectures.h"
#include "frontend/decoders/config/config_keys.h"

namespace sinter::frontend {

/// The row of the decoder that `keys` name. Throws Error(kUnsupported) that names it, and the known
/// models, if there is none.
const Architecture& architecture_of(const ConfigKeys& keys);

}  // namespace sinter::frontend
