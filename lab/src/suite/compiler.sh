# A C++ compiler on one preprocessed file full of templates: it parses, expands and optimises.
if [ "$1" = prepare ]; then
    cat > templates.cc <<'END'
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

template <int N> struct Shape {
  std::map<std::string, std::vector<std::shared_ptr<Shape<N - 1>>>> parts;
  int total(int x) const {
    int sum = x * N;
    for (auto const& [name, group] : parts)
      for (auto const& part : group) sum += part->total(x) + int(name.size());
    return sum;
  }
};
template <> struct Shape<0> { int total(int x) const { return x; } };

template <int N> int build(int x) {
  Shape<N> shape;
  shape.parts["part " + std::to_string(x)].push_back(std::make_shared<Shape<N - 1>>());
  std::vector<int> values(x);
  std::generate(values.begin(), values.end(), [n = 0]() mutable { return n += N; });
  std::sort(values.begin(), values.end(), [](int a, int b) { return a % N < b % N; });
  return shape.total(values.empty() ? 0 : values.front()) + build<N - 1>(x);
}
template <> int build<0>(int x) { return x; }

int main(int argc, char**) { return build<2>(argc); }
END
    "$PROGRAM" -std=c++17 -E -o templates.ii templates.cc
    exit
fi
exec "$PROGRAM" -std=c++17 -O1 -S -o - templates.ii
