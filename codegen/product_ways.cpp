#include "codegen/product_ways.h"

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
    refusal_ = wish.empty() ? "" : "the compiler was asked for '" + wish + "'";
    if (wish.empty() || is_schedule(wish))
      whole_ = accept(product.kernel(true, refusal_), refusal_);
    const bool wants_alone = wish == "alone" || (wish.empty() && (!whole_ || product.reduces()));
    if (product.rest() && wants_alone) {
      std::string ignored;
      alone_ = accept(product.kernel(false, ignored), ignored);
    }
  }

  std::vector<ProductWay> run() {
    if (!wish_.empty() && (whole_ || alone_)) {
      if (whole_) add(whole_way());
      if (alone_) add(alone_way());
    } else if (product_.is_conv()) {
      convolution();
    } else {
      if (whole_) add(limited(whole_way()));
      if (alone_) add(limited(alone_way()));
      add(library_way(whole_ ? "library" : "library; no kernel of our own: " + refusal_));
    }
    return std::move(ways_);
  }

 private:
  std::optional<ProductProgram> accept(std::optional<ProductProgram> kernel,
                                       std::string& refusal) const {
    if (!kernel) return std::nullopt;
    return kernels_.accept(std::move(kernel), refusal);
  }

  void add(ProductWay way) { ways_.push_back(std::move(way)); }

  ProductWay whole_way() const { return {"product", {}, whole_, {}, false}; }
  ProductWay alone_way() const { return {"product, then the rest", {}, alone_, {}, true}; }
  ProductWay library_way(std::string name) const {
    return {std::move(name), {}, {}, {}, product_.rest().has_value()};
  }
  ProductWay limited(ProductWay way) const {
    way.conditions = kernels_.limits(*way.kernel);
    return way;
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
  std::string refusal_;
  std::optional<ProductProgram> whole_, alone_;
  std::vector<ProductWay> ways_;
};

}  // namespace

std::vector<ProductWay> product_ways(const ProductStep& product, const std::string& wish,
                                     const ProductKernels& kernels) {
  return WayList(product, wish, kernels).run();
}

bool is_schedule(const std::string& wish) { return wish.starts_with("product "); }

}  // namespace sinter::codegen
