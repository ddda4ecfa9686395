// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http_metrics.h"

#include <fmt/format.h>

namespace sinter::tools {

std::string http_metrics_text(const http::Figures& figures) {
  std::string text;
  const auto metric = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto value) {
    text += fmt::format(
        "# HELP sinter_http_{0} {1}\n# TYPE sinter_http_{0} {2}\nsinter_http_{0} "
        "{3}\n",
        name, help, type, value);
  };
  metric("connections", "gauge", "Connections that are open.", figures.connections);
  metric("requests_running", "gauge", "Requests that are being answered.", figures.answering);
  metric("connections_total", "counter", "Connections that were accepted.", figures.accepted);
  metric("requests_total", "counter", "Requests whose head was understood.", figures.requests);
  text +=
      "# HELP sinter_http_refused_total What the server refused or closed, by reason.\n"
      "# TYPE sinter_http_refused_total counter\n";
  for (std::size_t i = 0; i < figures.refused.size(); ++i)
    text += fmt::format("sinter_http_refused_total{{reason=\"{}\"}} {}\n",
                        http::to_string(static_cast<http::Refused>(i)), figures.refused[i]);
  return text;
}

}  // namespace sinter::tools
