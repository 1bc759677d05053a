# perl: strings, hashes, regular expressions, fork, pipes and, where perl has them, threads.
export PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0

cat > work.pl <<'END'
use strict;
use warnings;
use Config;
$| = 1;

my ($length, %table) = (0);
for my $i (1 .. 100000) {
    $table{ $i * 7919 % 20000 } .= "x" x ($i % 20);
    delete $table{ $i * 31 % 20000 };
}
$length += length for values %table;
print scalar(keys %table), " keys, $length characters\n";

(my $changed = join " ", map { "word$_" } 1 .. 20000) =~ s/(\d+)/$1 * 2/ge;
print length($changed), "\n";

my $nested = [];
$nested = [$nested, { depth => $_ }] for 1 .. 10000;
undef $nested;

for my $i (1 .. 20) {
    my $child = open(my $pipe, "-|") // die "fork: $!";
    if (!$child) { print "child $i: ", length("y" x (1000 * $i)), "\n"; exit 0; }
    print while <$pipe>;
    close $pipe or die "child $i: $?";
}

if ($Config{useithreads}) {
    require threads;
    my @threads = map { my $n = $_; threads->create(sub { my @a = map { "t$_" x $n } 1 .. 5000; length "@a" }) } 1 .. 6;
    print join(" ", map { $_->join } @threads), "\n";
}
END
perl work.pl
perl -e 'die "as intended\n"' 2>&1 || echo "status $?"
