# perl: strings, hashes, regular expressions, sorting, fork, pipes and, where perl has them, threads.
set -eu
export PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0

cat > work.pl <<'END'
use strict;
use warnings;
use Config;
$| = 1;

my $state = 12345;
sub pseudo_random { $state = ($state * 1103515245 + 12345) % 2147483648; return $state % $_[0]; }

my %table;
for my $i (1 .. 100000) {
    $table{ pseudo_random(20000) } .= "x" x pseudo_random(20);
    delete $table{ pseudo_random(20000) };
}
my $length = 0;
$length += length for values %table;
print scalar(keys %table), " keys, $length characters\n";

my @sorted = sort { $b <=> $a || $a cmp $b } map { pseudo_random(1000000) } 1 .. 50000;
print "@sorted[0 .. 4] $sorted[-1]\n";

my $text = join " ", map { "word$_" } 1 .. 20000;
my %count;
$count{$1}++ while $text =~ /word(\d)\d*\b/g;
print join(", ", map { "$_: $count{$_}" } sort keys %count), "\n";
(my $changed = $text) =~ s/(\d+)/$1 * 2/ge;
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
echo 'all done'
