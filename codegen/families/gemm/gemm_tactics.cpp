#include "codegen/families/gemm/gemm_tactics.h"

#include <sinter/error.h>

namespace sinter::codegen {
namespace {

/// True if the widths of copies do not depend on sizes that are not known.
bool takes_all_sizes(const ProductProgram& product) {
  return product.n.is_constant() && product.k.is_constant() && product.windows &&
         product.windows->channels.is_constant() && product.windows->pitch.is_constant();
}

class WayList {
 public:
  WayList(const ProductStep& product, const std::string& wish, const ProductKernels& kernels)
      : product_(product), wish_(wish), kernels_(kernels) {
    const bool few = wish.starts_with("skinny ") && !is_group_schedule(wish);
    packs_elements_ = (wish.empty() || few) && !product.is_conv() && !is_quantised();
    find_kernels();
    if (!packs_elements_ || whole_ || with_rows_ || (alone_ && product.reduces())) return;
    packs_elements_ = false;
    find_kernels();
  }

  std::vector<ProductWay> run() {
    const bool unpacked = wish_ == "unpacked" || wish_ == "library";
    if (!wish_.empty() && !unpacked &&
        (with_rows_ || whole_ || alone_ || groups_ || groups_alone_)) {
      if (with_rows_) add(rows_way());
      if (whole_) add(whole_way());
      if (alone_) add(alone_way());
      if (groups_) add(groups_way());
      if (groups_alone_) add(groups_alone_way());
    } else if (product_.is_conv()) {
      convolution();
    } else if (is_quantised()) {
      quantised();
    } else if (packs_elements_) {
      packed();
    } else {
      if (with_rows_) add(limited(rows_way()));
      if (whole_) add(limited(whole_way()));
      if (groups_) add(limited(groups_way()));
      if (alone_) add(limited(alone_way()));
      if (groups_alone_) add(limited(groups_alone_way()));
      add(library_way(whole_ ? "library" : "library; no kernel of our own: " + refusal_));
    }
    return std::move(ways_);
  }

 private:
  void find_kernels() {
    refusal_ = wish_.empty() ? "" : "the compiler was asked for '" + wish_ + "'";
    const bool any = wish_.empty(), scheduled = is_schedule(wish_);
    std::string ignored;
    const bool unpacked = is_quantised() && (wish_ == "unpacked" || wish_ == "library");
    if (any || unpacked || (scheduled && !is_group_schedule(wish_))) {
      whole_ = kernel(true, false, refusal_);
      if (product_.rows() && (any || wish_.starts_with("skinny ")))
        with_rows_ = kernel(true, false, rows_refusal_, true);
      if (scheduled && with_rows_) whole_.reset();
    }
    // Warpgroups would read weights as they were.
    if (!packs_elements_ && (any || wish_ == "groups" || is_group_schedule(wish_)))
      groups_ = kernel(true, true, any ? ignored : refusal_);
    if (!product_.rest()) return;
    if (wish_ == "alone" || ((any || is_quantised()) && (!whole_ || product_.reduces())))
      alone_ = kernel(false, false, ignored);
    if (!packs_elements_ && (wish_ == "groups alone" || (any && (!groups_ || product_.reduces()))))
      groups_alone_ = kernel(false, true, ignored);
  }

  std::optional<ProductProgram> kernel(bool with_rest, bool by_groups, std::string& refusal,
                                       bool with_rows = false) {
    auto program = product_.kernel(with_rest, with_rows, refusal);
    if (packs_elements_ && program) packs_elements_ = kernels_.takes_elements(*program);
    if (packs_elements_ && program) {
      program->weights.emplace();
      program->weights->bits = 16;
    }
    return accept(std::move(program), by_groups, refusal);
  }

  std::optional<ProductProgram> accept(std::optional<ProductProgram> kernel, bool by_groups,
                                       std::string& refusal) const {
    if (by_groups && (!kernels_.have_groups || product_.is_conv())) return std::nullopt;
    if (!kernel) return std::nullopt;
    kernel->by_groups = by_groups;
    return kernels_.accept(std::move(kernel), refusal);
  }

  void add(ProductWay way) {
    if (product_.rows() && !way.kernel_has_rows()) {
      way.rows_first = true;
      way.name = "rows, then " + way.name;
      if (way.conditions.empty() && !rows_refusal_.empty())
        way.name += "; not in one kernel: " + rows_refusal_;
    }
    ways_.push_back(std::move(way));
  }

  ProductWay rows_way() const { return {"product and its rows", {}, with_rows_, {}, false}; }
  ProductWay whole_way() const { return {"product", {}, whole_, {}, false}; }
  ProductWay alone_way() const { return {"product, then the rest", {}, alone_, {}, true}; }
  ProductWay groups_way() const { return {"warpgroups", {}, groups_, {}, false}; }
  ProductWay groups_alone_way() const {
    return {"warpgroups, then the rest", {}, groups_alone_, {}, true};
  }
  ProductWay library_way(std::string name) const {
    return {std::move(name), {}, {}, {}, product_.rest().has_value()};
  }
  ProductWay limited(ProductWay way) const {
    way.conditions = kernels_.limits(*way.kernel);
    return way;
  }

  bool is_quantised() const { return product_.is_quantised(); }

  /// Weights made floats first, for many rows: by warpgroups and by the library.
  void unpacked() {
    const auto unpacking = kernels_.unpack(whole_ ? *whole_ : *alone_);
    if (!unpacking) return;
    const auto add_unpacked = [&](ProductWay way) {
      way.name = "unpacked, " + way.name;
      way.conditions = unpacking->conditions;
      way.unpacking = unpacking;
      add(std::move(way));
    };
    const auto by_groups = [&](bool with_rest) {
      std::string ignored;
      auto kernel = product_.kernel(with_rest, false, ignored);
      if (kernel) kernel = with_unpacked_weights(std::move(*kernel), *unpacking);
      return accept(std::move(kernel), true, ignored);
    };
    // What follows the library's product costs a kernel more; alone it is the better guess.
    const bool library_first = !product_.rest();
    if (library_first) add_unpacked(library_way("library"));
    if (wish_ != "library") {
      if (auto whole = by_groups(true))
        add_unpacked({"warpgroups", {}, std::move(whole), {}, false});
      else if (auto alone = product_.rest() ? by_groups(false) : std::nullopt)
        add_unpacked({"warpgroups, then the rest", {}, std::move(alone), {}, true});
    }
    if (!library_first) add_unpacked(library_way("library"));
  }

  /// The library has no such product.
  void quantised() {
    if (!whole_ && !alone_) throw Error(ErrorCode::kUnsupported, "quantised weights: " + refusal_);
    const bool asked = wish_ == "unpacked" || wish_ == "library";
    if (groups_)
      add(limited(groups_way()));
    else if (groups_alone_)
      add(limited(groups_alone_way()));
    if (wish_.empty() || asked) unpacked();
    if (asked && !ways_.empty() && ways_.back().conditions.empty()) return;
    packed();
  }

  /// Nothing else reads packed weights.
  void packed() {
    if (with_rows_) add(rows_way());
    add(whole_ ? whole_way() : alone_way());
  }

  void convolution() {
    ProductWay last = last_way();
    // A kernel that nothing limits would be tried twice.
    const auto try_before = [&](ProductWay way) {
      way = limited(std::move(way));
      if (way.name != last.name || !way.conditions.empty()) add(std::move(way));
    };
    if (whole_) try_before(whole_way());
    if (alone_) try_before(alone_way());
    if (product_.library_refusal().empty())
      add(library_way("cudnn"));
    else
      last.name += "; no library: " + product_.library_refusal();
    if (!whole_) last.name += "; no kernel on tensor cores: " + refusal_;
    add(std::move(last));
  }

  /// Norms of many rows are beyond one kernel.
  ProductWay last_way() const {
    if (whole_ && !product_.reduces() && takes_all_sizes(*whole_)) return whole_way();
    if (alone_ && takes_all_sizes(*alone_)) return alone_way();
    if (auto all = product_.loops(true)) return {"loops", {}, {}, std::move(all), false};
    return {"loops, then the rest", {}, {}, product_.loops(false), true};
  }

  const ProductStep& product_;
  const std::string& wish_;
  const ProductKernels& kernels_;
  std::string refusal_, rows_refusal_;
  bool packs_elements_ = false;  // weights of 16 bits, for kernels for few rows alone
  std::optional<ProductProgram> with_rows_, whole_, alone_, groups_, groups_alone_;
  std::vector<ProductWay> ways_;
};

}  // namespace

std::vector<ProductWay> product_ways(const ProductStep& product, const std::string& wish,
                                     const ProductKernels& kernels) {
  return WayList(product, wish, kernels).run();
}

bool is_schedule(const std::string& wish) {
  return wish.starts_with("product ") || wish.starts_with("skinny ");
}

bool is_group_schedule(const std::string& wish) {
  return is_schedule(wish) && wish.find(" groups=") != std::string::npos;
}

std::optional<std::string> tuning_tactic(const std::string& name, std::size_t part) {
  if (name.find("unpacked, warpgroups") != name.npos) return std::nullopt;
  if (part > 0) return "library";
  if (name.starts_with("product, then")) return "alone";
  if (name.starts_with("warpgroups, then")) return "groups alone";
  if (name.starts_with("product") || name.starts_with("warpgroups")) return "product";
  return std::nullopt;
}

}  // namespace sinter::codegen
