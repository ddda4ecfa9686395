// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/site_guard.h"

#include <algorithm>
#include <array>
#include <utility>

#include <arpa/inet.h>
#include <unistd.h>

#include "tools/serve/http/message.h"

namespace sinter::tools::http {
namespace {

/// Without the port and the brackets of IPv6, in lower case.
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, host.find(']') - 1));
  return lower(host.substr(0, host.find(':')));
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

}  // namespace

SiteGuard::SiteGuard(std::string bound, std::vector<std::string> hosts,
                     std::vector<std::string> origins)
    : names_(std::move(hosts)), origins_(std::move(origins)) {
  is_loopback_ = bound == "localhost" || bound == "::1" || bound.starts_with("127.");
  names_.push_back(std::move(bound));
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) == 0 && own[0] != '\0') {
    const std::string name = own.data();
    names_.push_back(name);
    names_.push_back(name.substr(0, name.find('.')));
  }
  for (std::string& name : names_) name = lower(name);
  for (std::string& origin : origins_) {
    origin = lower(origin);
    if (origin.ends_with('/')) origin.pop_back();
  }
}

bool SiteGuard::knows_host(std::string_view host) const {
  const std::string name = name_of(host);
  return is_address(name) || name == "localhost" || name.ends_with(".localhost") ||
         std::ranges::find(names_, name) != names_.end();
}

bool SiteGuard::is_own(std::string_view origin, std::string_view host) const {
  const auto scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  return lower(origin.substr(scheme + 3)) == lower(host) && knows_host(host);
}

bool SiteGuard::allows(std::string_view origin) const {
  const std::string wanted = lower(origin);
  return std::ranges::any_of(origins_,
                             [&](const std::string& one) { return one == "*" || one == wanted; });
}

}  // namespace sinter::tools::http
