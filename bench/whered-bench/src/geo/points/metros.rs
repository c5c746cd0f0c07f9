//! The metropolitan areas that more than half of the points lie in, and the boxes of land that
//! towns and lone points lie in.
//!
//! Not for exactness: centres are good to a kilometre, weights say how densely a place is mapped
//! rather than how many people live there. The two coasts of the German Bight are what the
//! calibration turns: their weights are chosen so that the two searches of the public benchmark
//! return what its data set returns (`census.rs`).

/// A metropolitan area: name, longitude and latitude of its centre, weight.
pub(super) type Metro = (&'static str, f64, f64, f64);

/// A box of land: name, west, south, east, north (degrees), weight for each square degree at the
/// equator (an area's share is its weight times its size on the globe).
pub(super) type Region = (&'static str, f64, f64, f64, f64, f64);

/// The radius within which a metropolitan area of weight 1 has all of its points.
pub(super) const METRO_RADIUS_METERS: f64 = 20_000.0;

#[rustfmt::skip]
pub(super) const METROS: [Metro; 104] = [
    ("Paris", 2.3522, 48.8566, 2.6), ("London", -0.1276, 51.5072, 2.6),
    ("Tokyo", 139.6917, 35.6895, 2.6), ("Berlin", 13.4050, 52.5200, 1.8),
    ("New York", -74.0060, 40.7128, 2.2), ("Los Angeles", -118.2437, 34.0522, 2.0),
    ("Moscow", 37.6173, 55.7558, 1.8), ("Istanbul", 28.9784, 41.0082, 1.2),
    ("Madrid", -3.7038, 40.4168, 1.4), ("Barcelona", 2.1734, 41.3851, 1.3),
    ("Rome", 12.4964, 41.9028, 1.3), ("Milan", 9.1900, 45.4642, 1.4),
    ("Vienna", 16.3738, 48.2082, 1.2), ("Munich", 11.5820, 48.1351, 1.2),
    ("Cologne", 6.9603, 50.9375, 1.2), ("Frankfurt", 8.6821, 50.1109, 1.2),
    ("Stuttgart", 9.1829, 48.7758, 1.0), ("Amsterdam", 4.9041, 52.3676, 1.4),
    ("Rotterdam", 4.4777, 51.9244, 1.2), ("Brussels", 4.3517, 50.8503, 1.2),
    ("Warsaw", 21.0122, 52.2297, 1.2), ("Prague", 14.4378, 50.0755, 1.1),
    ("Budapest", 19.0402, 47.4979, 1.0), ("Bucharest", 26.1025, 44.4268, 0.8),
    ("Sofia", 23.3219, 42.6977, 0.6), ("Athens", 23.7275, 37.9838, 0.9),
    ("Lisbon", -9.1393, 38.7223, 0.9), ("Porto", -8.6291, 41.1579, 0.6),
    ("Manchester", -2.2426, 53.4808, 1.0), ("Birmingham", -1.8904, 52.4862, 1.0),
    ("Glasgow", -4.2518, 55.8642, 0.7), ("Dublin", -6.2603, 53.3498, 0.8),
    ("Stockholm", 18.0686, 59.3293, 1.0), ("Oslo", 10.7522, 59.9139, 0.8),
    ("Copenhagen", 12.5683, 55.6761, 1.0), ("Helsinki", 24.9384, 60.1699, 0.9),
    ("Saint Petersburg", 30.3351, 59.9343, 1.0), ("Kyiv", 30.5234, 50.4501, 0.9),
    ("Minsk", 27.5615, 53.9006, 0.6), ("Zurich", 8.5417, 47.3769, 1.0),
    ("Lyon", 4.8357, 45.7640, 1.0), ("Marseille", 5.3698, 43.2965, 0.9),
    ("Toulouse", 1.4442, 43.6047, 0.8), ("Lille", 3.0573, 50.6292, 0.9),
    ("Naples", 14.2681, 40.8518, 0.8), ("Turin", 7.6869, 45.0703, 0.8),
    ("Belgrade", 20.4489, 44.7866, 0.5), ("Ankara", 32.8597, 39.9334, 0.6),
    ("Tehran", 51.3890, 35.6892, 0.7), ("Baghdad", 44.3661, 33.3152, 0.3),
    ("Riyadh", 46.6753, 24.7136, 0.4), ("Dubai", 55.2708, 25.2048, 0.5),
    ("Tel Aviv", 34.7818, 32.0853, 0.6), ("Cairo", 31.2357, 30.0444, 0.6),
    ("Lagos", 3.3792, 6.5244, 0.5), ("Nairobi", 36.8219, -1.2921, 0.5),
    ("Kampala", 32.5825, 0.3476, 0.4), ("Dar es Salaam", 39.2083, -6.7924, 0.9),
    ("Kinshasa", 15.2663, -4.4419, 0.5), ("Johannesburg", 28.0473, -26.2041, 0.7),
    ("Cape Town", 18.4241, -33.9249, 0.6), ("Casablanca", -7.5898, 33.5731, 0.4),
    ("Accra", -0.1870, 5.6037, 0.3), ("Addis Ababa", 38.7578, 8.9806, 0.3),
    ("Mumbai", 72.8777, 19.0760, 0.7), ("Delhi", 77.1025, 28.7041, 0.8),
    ("Bengaluru", 77.5946, 12.9716, 0.8), ("Hyderabad", 78.4867, 17.3850, 0.6),
    ("Kathmandu", 85.3240, 27.7172, 0.7), ("Dhaka", 90.4125, 23.8103, 0.5),
    ("Bangkok", 100.5018, 13.7563, 0.7), ("Singapore", 103.8198, 1.3521, 0.7),
    ("Kuala Lumpur", 101.6869, 3.1390, 0.6), ("Jakarta", 106.8456, -6.2088, 1.2),
    ("Surabaya", 112.7521, -7.2575, 0.6), ("Manila", 120.9842, 14.5995, 0.9),
    ("Ho Chi Minh City", 106.6297, 10.8231, 0.5), ("Hong Kong", 114.1694, 22.3193, 0.7),
    ("Shanghai", 121.4737, 31.2304, 0.8), ("Beijing", 116.4074, 39.9042, 0.8),
    ("Taipei", 121.5654, 25.0330, 0.9), ("Seoul", 126.9780, 37.5665, 1.0),
    ("Osaka", 135.5023, 34.6937, 1.6), ("Nagoya", 136.9066, 35.1815, 1.2),
    ("Fukuoka", 130.4017, 33.5904, 0.8), ("Sapporo", 141.3545, 43.0618, 0.6),
    ("Sydney", 151.2093, -33.8688, 0.9), ("Melbourne", 144.9631, -37.8136, 0.9),
    ("Auckland", 174.7633, -36.8485, 0.5), ("Toronto", -79.3832, 43.6532, 1.1),
    ("Montreal", -73.5673, 45.5017, 1.0), ("Vancouver", -123.1207, 49.2827, 0.8),
    ("Chicago", -87.6298, 41.8781, 1.4), ("Houston", -95.3698, 29.7604, 1.0),
    ("San Francisco", -122.4194, 37.7749, 1.4), ("Seattle", -122.3321, 47.6062, 1.1),
    ("Boston", -71.0589, 42.3601, 1.3), ("Washington", -77.0369, 38.9072, 1.4),
    ("Atlanta", -84.3880, 33.7490, 1.0), ("Mexico City", -99.1332, 19.4326, 1.0),
    ("Bogota", -74.0721, 4.7110, 0.7), ("Lima", -77.0428, -12.0464, 0.6),
    ("Sao Paulo", -46.6333, -23.5505, 1.1), ("Buenos Aires", -58.3816, -34.6037, 1.0),
];

#[rustfmt::skip]
pub(super) const REGIONS: [Region; 24] = [
    ("British Isles", -8.0, 50.5, 1.0, 58.0, 6.0), ("France", -3.5, 43.3, 7.0, 50.0, 8.0),
    ("Iberia", -9.0, 37.0, 3.0, 43.3, 4.0), ("Low Countries", 3.2, 50.0, 7.0, 52.6, 12.0),
    ("Germany", 7.0, 47.5, 14.5, 52.8, 9.0), ("Italy", 8.0, 40.5, 16.5, 45.8, 5.0),
    ("Central Europe", 14.5, 45.8, 24.0, 54.0, 6.0), ("Balkans", 16.5, 37.5, 29.0, 45.8, 2.5),
    ("Scandinavia", 11.0, 58.0, 30.0, 69.0, 1.6), ("Eastern Europe", 24.0, 46.0, 60.0, 60.0, 1.0),
    ("Siberia", 60.0, 50.0, 135.0, 68.0, 0.15), ("Turkey and Iran", 27.0, 29.0, 62.0, 41.0, 0.6),
    ("Eastern states", -97.0, 30.0, -75.0, 45.0, 4.5), ("Western states", -123.5, 32.5, -97.0, 49.0, 3.0),
    ("Canada", -128.0, 49.0, -60.0, 60.0, 0.25), ("Mexico", -106.0, 17.0, -97.0, 28.0, 0.8),
    ("Brazil", -60.0, -30.0, -38.0, -3.0, 0.35), ("Southern cone", -71.0, -45.0, -58.0, -22.0, 0.3),
    ("West Africa", -12.0, 5.0, 15.0, 16.0, 0.5), ("East and southern Africa", 15.0, -33.0, 39.0, 8.0, 0.5),
    ("India", 73.0, 9.0, 88.0, 29.0, 0.8), ("China", 98.0, 22.0, 121.0, 41.0, 0.5),
    ("Japan", 130.5, 31.5, 141.0, 40.0, 3.0), ("Australia", 115.0, -37.5, 152.0, -16.0, 0.15),
];

/// Lone points only, no towns: what the calibration turns.
#[rustfmt::skip]
pub(super) const COASTS: [Region; 2] = [
    ("Wadden Sea coast", 8.1, 54.0, 8.6, 55.85, 20.1),
    ("Jutland and Holstein", 8.75, 54.1, 9.85, 56.0, 68.0),
];
