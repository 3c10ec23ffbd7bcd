// Numbers and cuts: one exact order for 64-bit integers and doubles.
//
// A Number is a double `d` and a remainder `r`: an integer n is written as the largest double not above
// it plus what is left (0 for |n| <= 2^53). Pairs compare like the numbers themselves, so 2^53 + 1 is
// neither 2^53 nor 2^53 + 2, and 5 equals 5.0. NaN never gets here.
//
// A Cut is a gap in the number line, just before or just after a number. Every comparison is one of two
// questions about a cut, which is what lets one sorted array serve two operators:
//     a >= 5  above the cut before 5        a >  5  above the cut after 5
//     a <  5  below the cut before 5        a <= 5  below the cut after 5
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace runnel {

struct Number {
    double d = 0;
    std::uint16_t r = 0;

    static Number of(double value) { return Number{value + 0.0, 0}; }  // + 0.0 turns -0.0 into 0.0
    static Number of(std::int64_t value) {
        double d = static_cast<double>(value);
        if (d >= 9223372036854775808.0) d = std::nextafter(d, 0.0);
        if (static_cast<std::int64_t>(d) > value) d = std::nextafter(d, -INFINITY);
        return Number{d, static_cast<std::uint16_t>(value - static_cast<std::int64_t>(d))};
    }
    bool operator==(const Number& other) const { return d == other.d && r == other.r; }
    std::uint64_t bits() const {
        std::uint64_t u;
        std::memcpy(&u, &d, sizeof u);
        return u ^ (static_cast<std::uint64_t>(r) << 1) * 0x9E3779B97F4A7C15ull;
    }
};

struct Cut {
    double d;
    std::uint16_t rank;  // twice the remainder, plus one after the number

    static Cut before(Number n) { return Cut{n.d, static_cast<std::uint16_t>(2 * n.r)}; }
    static Cut after(Number n) { return Cut{n.d, static_cast<std::uint16_t>(2 * n.r + 1)}; }
    bool operator<(const Cut& other) const { return d < other.d || (d == other.d && rank < other.rank); }
    bool operator==(const Cut& other) const { return d == other.d && rank == other.rank; }
};

inline bool above(Number v, double d, std::uint16_t rank) {
    return (v.d > d) | ((v.d == d) & (2 * v.r >= rank));  // | and &, so that it compiles without a branch
}
inline bool above(Number v, Cut c) { return above(v, c.d, c.rank); }

}  // namespace runnel
