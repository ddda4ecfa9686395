// SPDX-License-Identifier: Apache-2.0
// Figures of connections, for Prometheus.
#pragma once

#include <string>

#include "tools/serve/http/server.h"

namespace sinter::tools {

std::string http_metrics_text(const http::Figures& figures);

}  // namespace sinter::tools
