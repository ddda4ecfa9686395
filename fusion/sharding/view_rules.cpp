// SPDX-License-Identifier: Apache-2.0
// Views: a split dimension that a view keeps whole stays split.
#include "fusion/sharding/strategies.h"

namespace sinter::fusion {
namespace {

/// Dimension `d` of input 0 becomes dimension `to`.
Strategy moved(const SplitSite& site, std::size_t d, std::size_t to) {
  Strategy way = site.strategy("split", Split::along(to));
  way.inputs[0] = Split::along(d);
  return way;
}

void set_shape(const SplitSite& site, std::size_t axis, Strategy& way) {
  way.attrs.set("shape", site.part(site.node.attrs.get_dims("shape"), axis));
}

void add_reshape(const SplitSite& site, std::vector<Strategy>& ways) {
  const Shape &in = site.in(0), &out = site.out();
  Dim before = 1;
  for (std::size_t d = 0; d < in.size(); before *= in[d], ++d) {
    if (!site.divides(in, d)) continue;
    // Equal parts of both dimensions are the same elements if as many runs stand in front.
    Dim other = 1;
    for (std::size_t to = 0; to < out.size(); other *= out[to], ++to) {
      if (other != before || !site.divides(out, to)) continue;
      Strategy way = moved(site, d, to);
      set_shape(site, to, way);
      ways.push_back(std::move(way));
    }
  }
}

void add_expand(const SplitSite& site, std::vector<Strategy>& ways) {
  for (std::size_t d = 0; d < site.out().size(); ++d) {
    if (!site.divides(site.out(), d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    way.inputs[0] = site.aligned(0, d, site.out().size());
    set_shape(site, d, way);
    ways.push_back(std::move(way));
  }
}

/// The ways of views that keep the dimensions for which `keeps` holds.
template <class Keeps>
void add_kept(const SplitSite& site, std::vector<Strategy>& ways, bool sets_shape,
              const Keeps& keeps) {
  for (std::size_t d = 0; d < site.out().size(); ++d) {
    if (!keeps(d) || !site.divides(site.out(), d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    for (Split& input : way.inputs) input = Split::along(d);
    if (sets_shape) set_shape(site, d, way);
    ways.push_back(std::move(way));
  }
}

}  // namespace

void add_view(const SplitSite& site, std::vector<Strategy>& ways) {
  const std::string& op = site.node.op->name;
  const Attrs& attrs = site.node.attrs;
  if (op == "Reshape") {
    add_reshape(site, ways);
  } else if (op == "Transpose") {
    const Ints& perm = attrs.get_ints("perm");
    for (std::size_t d = 0; d < perm.size(); ++d)
      if (site.divides(site.out(), d))
        ways.push_back(moved(site, static_cast<std::size_t>(perm[d]), d));
  } else if (op == "Expand") {
    add_expand(site, ways);
  } else if (op == "Slice") {
    add_kept(site, ways, true, [&](std::size_t d) {
      return attrs.get_dims("starts")[d] == Dim(0) && attrs.get_ints("steps")[d] == 1 &&
             site.in(0)[d] == site.out()[d];
    });
  } else if (op == "Concat") {
    add_kept(site, ways, false,
             [&](std::size_t d) { return static_cast<std::int64_t>(d) != attrs.get_int("axis"); });
  } else if (op == "Pad") {
    add_kept(site, ways, false, [&](std::size_t d) {
      return attrs.get_dims("begins")[d] == Dim(0) && attrs.get_dims("ends")[d] == Dim(0);
    });
    return;
  } else if (op == "Unfold") {
    constexpr std::size_t kBatchAndChannels = 2;
    add_kept(site, ways, false, [&](std::size_t d) {
      return d < kBatchAndChannels && site.in(0)[d] == site.out()[d];
    });
    return;
  } else {
    return;
  }
  if (!is_arithmetic_float(site.graph.type(site.node.outputs[0]).dtype)) return;
  Strategy way = site.strategy("sum later", kPartial);
  for (Split& input : way.inputs) input = kPartial;
  way.shares_work = false;
  ways.push_back(std::move(way));
}

}  // namespace sinter::fusion
